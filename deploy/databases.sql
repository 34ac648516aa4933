-- The databases of the two servers, each with a role of its own that reaches no other database. PostgreSQL's image runs
-- this once, when its volume is new.
\getenv prefect_password PREFECT_DATABASE_PASSWORD
\getenv mlflow_password MLFLOW_DATABASE_PASSWORD
CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';
CREATE ROLE mlflow LOGIN PASSWORD :'mlflow_password';
CREATE DATABASE prefect OWNER prefect;
CREATE DATABASE mlflow OWNER mlflow;
REVOKE CONNECT, TEMPORARY ON DATABASE prefect, mlflow, postgres, template1 FROM PUBLIC;
