"""Random programs under random settings keep every invariant of the caching allocator."""

import itertools

import hypothesis.strategies as st
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.blocks import ALLOCATED, FREE, PENDING, SMALL_SIZE, UNMAPPED
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.settings import Settings
from stridetool.errors import OutOfMemoryError

MIB = 1 << 20
sizes = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 3 * MIB),
    st.integers(MIB - 600, MIB + 600),
    st.integers(1, 60 * MIB),
    st.sampled_from([512, MIB, 10 * MIB, 20 * MIB, 21 * MIB]),
)
streams = st.integers(0, 2)
texts = st.fixed_dictionaries(
    {},
    optional={
        "expandable_segments": st.booleans(),
        "max_split_size_mb": st.sampled_from([20, 24, 32]),
        "garbage_collection_threshold": st.sampled_from([0.3, 0.8]),
        "roundup_power2_divisions": st.sampled_from([1, 4, "[1:4,4:2,>:8]"]),
        "large_segment_size_mb": st.sampled_from([12, 20]),
    },
).map(lambda chosen: ",".join(f"{key}:{value}" for key, value in chosen.items()))


def blocks_of(allocator):
    return [block for segment in allocator.segments.values() for block in segment.blocks()]


class Machine(RuleBasedStateMachine):
    live = Bundle("live")

    @initialize(
        text=texts,
        policy=st.sampled_from(["2.14", "2.11", "fixed"]),
        fraction=st.sampled_from([1.0, 0.7]),
        address_policy=st.sampled_from(["bump", "firstfit"]),
        events=st.sampled_from(["auto", "manual", 2]),
    )
    def begin(self, text, policy, fraction, address_policy, events):
        self.driver = SimDriver(160 * MIB, address_policy=address_policy, stream_events=events)
        self.allocator = CachingAllocator(self.driver, Settings.parse(text), policy=policy, fraction=fraction)
        self.requested = {}
        self.pools = 0

    @rule(target=live, size=sizes, stream=streams)
    def malloc_one(self, size, stream):
        block = self.malloc(size, stream)
        return multiple() if block is None else block

    def malloc(self, size, stream):
        try:
            block = self.allocator.malloc(size, stream)
        except OutOfMemoryError:
            return None
        assert block.size >= size
        assert block.requested == size
        assert block.segment.stream == stream
        self.requested[block] = size
        return block

    @rule(target=live, wanted=st.lists(st.tuples(sizes, streams), max_size=8), keep=st.sets(st.integers(0, 7)))
    def malloc_many_free_some(self, wanted, keep):
        blocks = [self.malloc(size, stream) for size, stream in wanted]
        for index, block in enumerate(blocks):
            if block in self.requested and index not in keep:
                self.free(block)
        return multiple(*(block for block in blocks if block in self.requested))

    @rule(block=consumes(live))
    def free(self, block):
        del self.requested[block]
        self.allocator.free(block)

    @rule(block=live, stream=streams)
    def record_stream(self, block, stream):
        self.allocator.record_stream(block, stream)

    @rule()
    def empty_cache(self):
        self.allocator.empty_cache()
        for block in blocks_of(self.allocator):
            whole = block.prev is None and block.next is None
            assert block.segment.page or block.state != FREE or not whole or block.segment.pool.owner

    @rule(stream=st.one_of(st.none(), streams))
    def finish_events(self, stream):
        self.driver.complete(stream)
        self.allocator.process_events()

    @rule()
    def reset_peak(self):
        self.allocator.reset_peak()

    @rule(capacity=st.integers(60, 200))
    def capacity_changes(self, capacity):
        self.driver.set_capacity(capacity * MIB)

    @rule()
    def pool_begins(self):
        self.pools += 1
        self.allocator.pool_create(self.pools)
        self.allocator.pool_begin(self.pools)

    @rule(data=st.data())
    def pool_ends(self, data):
        if self.allocator.active_pools:
            identity = self.allocator.active_pools[-1].identity
            self.allocator.pool_end(identity)
            self.allocator.pool_destroy(identity)

    @invariant()
    def blocks_tile_their_segments(self):
        for segment in self.allocator.segments.values():
            chain = segment.blocks()
            assert chain[0].address == segment.address
            for left, right in itertools.pairwise(chain):
                assert left.address + left.size == right.address
                assert left.next is right
                assert right.prev is left
                assert left.state != right.state or left.state not in (FREE, UNMAPPED)
            assert chain[-1].address + chain[-1].size == segment.address + segment.size
            assert chain[-1] is segment.tail

    @invariant()
    def live_blocks_are_apart(self):
        ranges = sorted((block.address, block.address + block.size) for block in self.requested)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))

    @invariant()
    def free_lists_hold_the_free_blocks(self):
        allocator = self.allocator
        pools = [allocator.small, allocator.large]
        for owner in allocator.private.values():
            pools += [owner.small, owner.large]
        listed = [key for pool in pools for keys in pool.free.values() for key in keys]
        assert all(keys == sorted(keys) for pool in pools for keys in pool.free.values())
        assert {key[3] for key in listed} == {b for b in blocks_of(allocator) if b.state == FREE}
        assert all((key[0], key[2]) == (key[3].size, key[3].address) for key in listed)
        unmapped = {block for pool in pools for ranges in pool.unmapped.values() for _, block in ranges}
        assert unmapped == {b for b in blocks_of(allocator) if b.state == UNMAPPED}

    @invariant()
    def statistics_add_up(self):
        allocator, blocks = self.allocator, blocks_of(self.allocator)
        stats = allocator.memory_stats()
        active = [b for b in blocks if b.state in (ALLOCATED, PENDING)]
        allocated = [b for b in blocks if b.state == ALLOCATED]
        assert set(allocated) == set(self.requested)
        assert allocator.allocated_bytes == sum(b.size for b in allocated)
        assert allocator.active_bytes == sum(b.size for b in active)
        assert allocator.requested_bytes == sum(b.requested for b in active)
        assert allocator.reserved_bytes == sum(b.size for b in blocks if b.state != UNMAPPED)
        assert allocator.reserved_bytes == self.driver.used
        split = [b for b in blocks if b.state == FREE and not b.segment.page and (b.prev or b.next)]
        assert stats["inactive_split.all.current"] == len(split)
        assert allocator.inactive_split_bytes == sum(b.size for b in split)
        for name in {key.rsplit(".", 1)[0] for key in stats if key.endswith(".current")}:
            assert stats[f"{name}.allocated"] - stats[f"{name}.freed"] == stats[f"{name}.current"]
            assert stats[f"{name}.peak"] >= stats[f"{name}.current"] >= 0
        for name in {key.rsplit(".", 2)[0] for key in stats if ".small_pool." in key}:
            for figure in ("current", "allocated", "freed"):
                parts = stats[f"{name}.small_pool.{figure}"] + stats[f"{name}.large_pool.{figure}"]
                assert stats[f"{name}.all.{figure}"] == parts

    @invariant()
    def large_blocks_are_large(self):
        """Nothing of a large segment is as small as a small block, unless pages make it so."""
        for block in blocks_of(self.allocator):
            if not block.segment.page and not block.segment.pool.is_small:
                assert block.size > SMALL_SIZE

    @invariant()
    def limits_are_kept(self):
        allocator = self.allocator
        if allocator.allowed is not None and not allocator.settings.expandable_segments:
            assert allocator.reserved_bytes <= allocator.allowed

    def teardown(self):
        if not hasattr(self, "allocator"):
            return
        for block in list(self.requested):
            self.allocator.free(block)
        while self.allocator.active_pools:
            self.pool_ends(None)
        self.driver.synchronize()
        self.allocator.empty_cache()
        assert self.allocator.reserved_bytes == self.driver.used == 0
        assert not self.allocator.private


Machine.TestCase.settings = hypothesis_settings(max_examples=30, stateful_step_count=50, deadline=None)
TestAllocatorLaws = Machine.TestCase
