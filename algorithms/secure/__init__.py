"""Secure aggregation: the coordinator learns the sum of the silos' vectors and nothing else of them.

Bonawitz et al. 2017, "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS), the protocol for an
honest-but-curious coordinator, for up to 64 silos in a full mesh. Four phases, each one question to every silo:

1. `advertise`: every silo sends two public X25519 keys, one for sealing and one for masks (`participant`).
2. `share`: it splits its private mask key and the seed of its self-mask among all silos (`shamir`), each share sealed
   for its receiver (`agreement`); the coordinator only passes them on.
3. `mask`: it sends its vector (`ring`) plus its self-mask, plus or minus one mask for every pair it is in (`masks`);
   summed over the silos the pairwise masks cancel.
4. `unmask`: the silos reveal their shares of the self-masks of those that answered phase 3, and of the mask keys of
   those that did not; the coordinator subtracts what is left of the masks (`aggregator`).

Whatever silos fall silent in whatever phase, at least `threshold` that remain give the exact sum of those that answered
phase 3; fewer abort it. `exchange.secure_sum` runs the phases over any transport, `exchange.answer` is a silo's side.
Not in the paper: the commitment to the self-mask's seed (`messages`), by which wrong shares are found out, and that
everything is bound to a session (`session`).

What it protects: the coordinator, alone or with fewer than `threshold` silos that tell it all they know, learns of the
other silos' vectors only their sum, even of a silo whose masked vector arrives after it was given up. Every message
from silo to silo is sealed, and bound to run, round, attempt, sender and receiver; keys are fresh in every session.

What it does not protect: the coordinator must follow the protocol. One that lies (invents silos, gives out its own keys
as a silo's: keys are not signed; tells the silos different stories) can learn more; a silo that answers one set of
survivors only, with a threshold above half of the silos, limits what such a coordinator gets and does not rule it out.
It hides a silo in the sum and not in what the sum tells: all the others together know the remaining one, and sums over
different survivors can be subtracted; that takes differential privacy. It is not robust to poisoning: a silo can put in
any vector it likes. Masked vectors and answers of phase 4 travel to the coordinator as they are: confidentiality and
integrity on the wire are the transport's. Arithmetic on secrets is not constant in time.
"""
