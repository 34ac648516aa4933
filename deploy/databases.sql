-- The databases of the two servers; PostgreSQL's image runs this once, when its volume is new.
CREATE DATABASE prefect;
CREATE DATABASE mlflow;
