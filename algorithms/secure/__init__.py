"""Secure aggregation: the coordinator learns the sum of the silos' vectors and nothing else about them.

Bonawitz et al. 2017, "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS), the protocol for an
honest-but-curious coordinator, for up to 256 silos in a full mesh. In each of its four phases the coordinator sends
every silo one message and gets one answer:

1. `advertise`: every silo sends two public X25519 keys, one for sealing and one for masks (`participant`).
2. `share`: it splits its private mask key and the seed of its self-mask among all silos (`participant`), each share
   sealed for its receiver (`masks`); the coordinator only passes them on.
3. `mask`: it sends its vector plus its self-mask, plus or minus one mask for every pair it is in (`masks`);
   summed over the silos the pairwise masks cancel.
4. `unmask`: the silos reveal their shares of the self-masks of those that answered phase 3, and of the mask keys of
   those that did not; the coordinator subtracts the remaining masks (`exchange`).

Silos may stop answering in any phase. As long as `threshold` of them remain, the coordinator gets the exact sum of
those that answered phase 3; with fewer, the protocol aborts. `exchange.secure_sum` runs the phases over any transport,
`exchange.answer` is a silo's side. Two things are not in the paper: the commitment to the self-mask's seed
(`messages`), which exposes wrong shares, and the session that everything is bound to.

What it protects: the coordinator, alone or colluding with fewer than `threshold` silos, learns only the sum of the
other silos' vectors, even if a masked vector arrives after its silo was declared lost. Every message
from silo to silo is sealed, and bound to run, round, attempt, sender and receiver; keys are fresh in every session.

What it does not protect: the coordinator must follow the protocol. One that lies (invents silos, gives out its own keys
as a silo's: keys are not signed; tells the silos different stories) can learn more; since a silo answers one set of
survivors only, and the threshold is above half of the silos, such a coordinator gains less, but still something. The
sum itself is revealed: all silos but one together can compute the vector of the last, and sums over different sets of
survivors can be subtracted. Differential privacy protects against that. It is not robust to poisoning: a silo can put
in any vector it likes. Masked vectors and answers of phase 4 travel to the coordinator unencrypted: confidentiality
and integrity on the wire are the transport's job. Arithmetic on secrets is not constant in time.
"""
