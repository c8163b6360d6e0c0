"""Admission: how many connections there are is always known, and never more than there may be."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arauto.gateways.guard import Admission

addresses = st.sampled_from(["10.0.0.1", "10.0.0.2", ""])


class AdmissionAgainstModel(RuleBasedStateMachine):
    @initialize(connections_max=st.integers(0, 5), per_address_max=st.integers(0, 3))
    def open(self, connections_max: int, per_address_max: int) -> None:
        self.admission = Admission(connections_max, per_address_max)
        self.inside: Counter[str] = Counter()
        self.refused = 0

    @rule(address=addresses)
    def arrive(self, address: str) -> None:
        admission = self.admission
        total_full = 0 < admission.connections_max <= self.inside.total()
        own_full = 0 < admission.per_address_max <= self.inside[address]
        assert admission.enter(address) == (not total_full and not own_full)
        if total_full or own_full:
            self.refused += 1
        else:
            self.inside[address] += 1

    @rule(address=addresses)
    def leave(self, address: str) -> None:
        if self.inside[address]:
            self.inside[address] -= 1
            self.admission.leave(address)

    @invariant()
    def counts_are_right(self) -> None:
        if not hasattr(self, "admission"):
            return
        assert self.admission.count == self.inside.total()
        assert self.admission.refused == self.refused
        if self.admission.per_address_max:
            # Addresses of those who left are forgotten, or a scan would fill memory.
            assert self.admission.by_address == dict(+self.inside)


TestAdmissionAgainstModel = AdmissionAgainstModel.TestCase
