"""Secure aggregation: the coordinator learns the sum of the silos' vectors and nothing else about them.

The protocol is Bonawitz et al. 2017, "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS), in
the version for an honest-but-curious coordinator, for up to 32 silos in a full mesh. In each of its four phases the
coordinator sends every silo one message and receives one answer:

1. `advertise`: every silo sends its public X25519 key of the run, and hashes of two fresh secrets (`participant`).
2. `share`: every silo splits two secrets among all silos (`secret_sharing`): the seed of its self-mask and the key of
   its escrow. Each share is sealed for its receiver (`masks`), and the coordinator only forwards it. The silo also
   sends its escrow to the coordinator: the encrypted keys of its masks with all peers in this session.
3. `mask`: every silo sends its vector plus its self-mask, plus or minus one mask for each of its pairs (`masks`). The
   pairwise masks cancel in the sum over the silos.
4. `unmask`: for each silo that answered phase 3, the silos reveal their shares of its self-mask seed. For each silo
   that did not, they reveal their shares of its escrow key. The coordinator subtracts the remaining masks
   (`recovery.recover`).

Silos may drop out in any phase. If at least `threshold` of them remain, the coordinator obtains the exact sum over the
silos that answered phase 3; otherwise the protocol aborts. `exchange.secure_sum` runs the phases over any transport,
and `exchange.answer` is a silo's side. Three parts are not in the paper: the commitments to the secrets (`messages`),
which expose wrong shares; the session to which all keys and messages are bound; and the escrow. In the paper, the
coordinator recovers the private key of a silo that drops out. Here two silos agree on a secret only once in a run,
which saves three of four public-key operations. A revealed private key would therefore open the silo's masks in all
sessions (`masks`), so the escrow reveals the mask keys of one session instead.

Runs of 33 to 256 silos use the masks of a sparse graph instead (`sparse`, after Bell et al. 2020). There are three
phases and no secret sharing, a silo shares masks with about a third of the others, and all silos of a session must
answer.

Guarantees: the coordinator, alone or colluding with fewer than `threshold` silos, learns only the sum of the other
silos' vectors, even if a masked vector arrives after its silo was declared lost. Every share is sealed for its
receiver, and bound to run, round, attempt, sender and receiver. Mask keys are fresh in every session. Pairs of silos
derive them from the silos' private keys of the run, which stay in the memory of each silo and are erased when the run
ends.

Limits: the coordinator must follow the protocol. Against a coordinator that does not, a silo's service adds checks:
keys must be signed by known silos, a round has one set of survivors, and all silos of a session take part in the same
exchange (`tasks/silo/secure_sums.py`). If silos do not know each other's keys, a coordinator can invent silos and learn
more. The sum itself is revealed. So if all silos but one collude, they can compute the vector of that silo, and sums
over different sets of survivors can be subtracted from each other. Differential privacy protects against both. The
protocol is not robust to poisoning: a silo can contribute any vector. Masked vectors and answers of phase 4 are sent to
the coordinator unencrypted, because confidentiality and integrity on the wire are the task of the transport. Arithmetic
on secrets is not constant-time.
"""
