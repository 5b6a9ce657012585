#include "kernels/kv/kv_arena.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr std::array<KvGroup, kKvGroupCount> kGroups = {kFullGroup, kWindowGroup};

const char* GroupName(KvGroup group) { return group == kFullGroup ? "full" : "window"; }

const KvPages& PagesOf(const KvSequencePages& pages, KvGroup group) {
  return group == kFullGroup ? pages.full : pages.window;
}

absl::Status CheckOptions(const KvArenaOptions& options) {
  if (options.incarnation.empty())
    return absl::InvalidArgumentError("arena incarnation: wanted a name, found an empty one");
  for (KvGroup group : kGroups) {
    const KvGroupLayout& layout = options.layout.groups[group];
    if (layout.layer_count > 0 && layout.page_count < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(GroupName(group), " group: wanted at least 2 pages (one is the self-test's)",
                       ", found ", layout.page_count));
    }
  }
  if (options.revoke_timeout.count() < 0 || options.gone_margin.count() < 0 ||
      options.silent_quarantine.value_or(options.gone_margin).count() < 0)
    return absl::InvalidArgumentError("arena times: wanted 0 ms or more, found a negative one");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<KvArena>> KvArena::Create(KvArenaOptions options) {
  BATON_RETURN_IF_ERROR(CheckOptions(options));
  return std::unique_ptr<KvArena>(new KvArena(std::move(options)));
}

KvArena::KvArena(KvArenaOptions options)
    : options_(std::move(options)), descriptor_(DescribeArena(options_.layout, {})) {
  descriptor_.incarnation = options_.incarnation;
  for (KvGroup id : kGroups) {
    const KvGroupLayout& layout = options_.layout.groups[id];
    Group& group = groups_[id];
    if (layout.layer_count == 0) continue;
    group.pages.resize(layout.page_count);
    group.pages[kScratchPage].state = KvPageState::kAdopted;
    group.free = FreePages(kScratchPage + 1, layout.page_count - 1);
  }
}

absl::StatusOr<KvSequencePages> KvArena::Reserve(uint32_t full_count, uint32_t window_count) {
  std::array<uint32_t, kKvGroupCount> counts = {full_count, window_count};
  absl::Status status;
  for (KvGroup id : kGroups) {
    const Group& group = groups_[id];
    if (group.pages.empty()) counts[id] = 0;
    if (counts[id] <= group.free.size()) continue;
    const size_t total = group.pages.size() - 1;
    const std::string message = absl::StrCat(GroupName(id), " KV pages: wanted ", counts[id],
                                             ", free ", group.free.size(), " of ", total);
    if (counts[id] > total) return absl::InvalidArgumentError(message);
    status.Update(absl::ResourceExhaustedError(message));
  }
  BATON_RETURN_IF_ERROR(status);
  KvSequencePages result;
  for (KvGroup id : kGroups) {
    Group& group = groups_[id];
    KvPages& pages = id == kFullGroup ? result.full : result.window;
    pages.page_ids = group.free.Take(counts[id]);
    for (const PageId page : pages.page_ids) {
      group.pages[page].state = KvPageState::kAdopted;
      pages.generations.push_back(group.pages[page].generation);
    }
  }
  return result;
}

void KvArena::Release(const KvSequencePages& pages) {
  BATON_CHECK(HoldsAll(pages, KvPageState::kAdopted, 0));
  FreeAll(pages);
}

void KvArena::AttachWriter(std::string_view writer_incarnation) {
  writers_.emplace(writer_incarnation);
}

std::vector<uint64_t> KvArena::WriterGone(std::string_view writer_incarnation, KvTime now) {
  Advance(now);
  writers_.erase(std::string(writer_incarnation));
  std::vector<uint64_t> ended;
  for (auto& [lease_id, lease] : leases_) {
    if (lease.writer != writer_incarnation || lease.writer_gone) continue;
    if (lease.state == KvPageState::kReserved) ended.push_back(lease_id);
    lease.writer_gone = true;
    SetLeaseState(lease_id, lease, KvPageState::kQuarantined);
  }
  std::sort(ended.begin(), ended.end());
  return ended;
}

absl::StatusOr<KvLease> KvArena::StartLease(const KvLeaseRequest& request) {
  if (!writers_.contains(request.writer_incarnation)) {
    return absl::FailedPreconditionError(
        absl::StrCat("lease writer: wanted an attached one, found ", request.writer_incarnation));
  }
  BATON_CHECK(HoldsAll(request.pages, KvPageState::kAdopted, 0));
  KvLease lease{.lease_id = last_lease_id_ + 1,
                .arena_incarnation = options_.incarnation,
                .pages = request.pages,
                .write_begin = request.write_begin,
                .write_end = request.write_end};
  BATON_RETURN_IF_ERROR(ValidateLease(lease, descriptor_));
  last_lease_id_ = lease.lease_id;
  leases_[lease.lease_id] = {.pages = request.pages, .writer = request.writer_incarnation};
  SetState(lease.pages, KvPageState::kReserved, lease.lease_id);
  return lease;
}

absl::Status KvArena::SealLease(uint64_t lease_id) {
  BATON_CHECK(lease_id > 0 && lease_id <= last_lease_id_);
  const auto found = leases_.find(lease_id);
  if (found == leases_.end() || found->second.state != KvPageState::kReserved)
    return absl::AbortedError(
        absl::StrCat("lease ", lease_id, " was revoked before it was sealed"));
  SetState(found->second.pages, KvPageState::kAdopted, 0);
  leases_.erase(found);
  return absl::OkStatus();
}

bool KvArena::RevokeLease(uint64_t lease_id, KvTime now) {
  BATON_CHECK(lease_id > 0 && lease_id <= last_lease_id_);
  Advance(now);
  const auto found = leases_.find(lease_id);
  if (found == leases_.end() || found->second.writer_gone) return false;
  if (found->second.state == KvPageState::kReserved)
    SetLeaseState(lease_id, found->second, KvPageState::kRevoking);
  return true;
}

void KvArena::ConfirmRevoked(uint64_t lease_id) {
  BATON_CHECK(lease_id > 0 && lease_id <= last_lease_id_);
  const auto found = leases_.find(lease_id);
  if (found == leases_.end()) return;
  // A writer confirms what it was asked: a lease that still runs is not ended by a stray answer.
  if (found->second.state == KvPageState::kReserved) return;
  EndLease(found);
}

uint32_t KvArena::ExpireQuarantine(KvTime now) {
  Advance(now);
  uint32_t freed = 0;
  for (auto it = leases_.begin(); it != leases_.end();) {
    Lease& lease = it->second;
    if (lease.state == KvPageState::kRevoking && waited_ - lease.since >= options_.revoke_timeout)
      SetLeaseState(it->first, lease, KvPageState::kQuarantined);
    if (!MayFree(lease)) {
      ++it;
      continue;
    }
    freed += lease.pages.full.page_ids.size() + lease.pages.window.page_ids.size();
    it = EndLease(it);
  }
  return freed;
}

void KvArena::ShrinkWindow(uint32_t token_count, uint32_t max_token_count, KvSequencePages* pages) {
  BATON_CHECK(token_count > 0 && token_count <= max_token_count);
  BATON_CHECK(HoldsAll(*pages, KvPageState::kAdopted, 0));
  KvPages& ring = pages->window;
  const uint32_t window_keys = options_.layout.window_keys;
  const uint32_t old_size = ring.page_ids.size();
  const uint32_t new_size = WindowPagesFor(max_token_count, window_keys, 1);
  if (new_size >= old_size) return;
  // The next query, at position token_count, sees keys down to token_count - window_keys + 1.
  const uint32_t first_key = token_count + 1 > window_keys ? token_count + 1 - window_keys : 0;
  const uint32_t first_live = first_key / kPageTokens;
  const uint32_t live_end = FullPagesFor(token_count);
  BATON_CHECK(live_end - first_live <= new_size);
  // Slot by slot, the old ring's pages in the order of the logical pages from first_live on: the
  // live ones come first and land where the new ring wants them, what is left over is freed.
  KvPages shrunk;
  shrunk.page_ids.resize(new_size);
  shrunk.generations.resize(new_size);
  for (uint32_t i = 0; i < old_size; ++i) {
    const uint32_t from = (first_live + i) % old_size;
    if (i >= new_size) {
      FreePage(kWindowGroup, ring.page_ids[from]);
      continue;
    }
    const uint32_t to = (first_live + i) % new_size;
    shrunk.page_ids[to] = ring.page_ids[from];
    shrunk.generations[to] = ring.generations[from];
  }
  ring = std::move(shrunk);
}

void KvArena::Advance(KvTime now) {
  if (last_now_ && now > *last_now_)
    waited_ += std::min<std::chrono::nanoseconds>(now - *last_now_, kMaxClockStep);
  last_now_ = now;
}

bool KvArena::MayFree(const Lease& lease) const {
  if (lease.state != KvPageState::kQuarantined) return false;
  const auto waited = waited_ - lease.since;
  if (lease.writer_gone) return waited >= options_.gone_margin;
  return options_.silent_quarantine && waited >= *options_.silent_quarantine;
}

bool KvArena::HoldsAll(const KvSequencePages& pages, KvPageState state, uint64_t lease_id) const {
  for (KvGroup id : kGroups) {
    const KvPages& wanted = PagesOf(pages, id);
    if (wanted.page_ids.size() != wanted.generations.size()) return false;
    for (size_t i = 0; i < wanted.page_ids.size(); ++i) {
      const PageId page_id = wanted.page_ids[i];
      if (page_id == kScratchPage || page_id >= groups_[id].pages.size()) return false;
      const Page& page = groups_[id].pages[page_id];
      if (page.state != state || page.lease_id != lease_id) return false;
      if (page.generation != wanted.generations[i]) return false;
    }
  }
  return true;
}

void KvArena::SetState(const KvSequencePages& pages, KvPageState state, uint64_t lease_id) {
  for (KvGroup id : kGroups) {
    for (PageId page : PagesOf(pages, id).page_ids) {
      groups_[id].pages[page].state = state;
      groups_[id].pages[page].lease_id = lease_id;
    }
  }
}

void KvArena::SetLeaseState(uint64_t lease_id, Lease& lease, KvPageState state) {
  lease.state = state;
  lease.since = waited_;
  SetState(lease.pages, state, lease_id);
}

void KvArena::FreeAll(const KvSequencePages& pages) {
  for (KvGroup id : kGroups)
    for (PageId page : PagesOf(pages, id).page_ids) FreePage(id, page);
}

void KvArena::FreePage(KvGroup group, PageId page_id) {
  Page& page = groups_[group].pages[page_id];
  BATON_CHECK(page.state != KvPageState::kFree);
  page.state = KvPageState::kFree;
  page.lease_id = 0;
  ++page.generation;
  groups_[group].free.Give(page_id);
}

KvArena::LeaseMap::iterator KvArena::EndLease(LeaseMap::iterator lease) {
  FreeAll(lease->second.pages);
  return leases_.erase(lease);
}

KvArenaStats KvArena::Stats() const {
  KvArenaStats stats;
  for (KvGroup id : kGroups) {
    const Group& group = groups_[id];
    KvGroupStats& out = stats.groups[id];
    for (PageId page = kScratchPage + 1; page < group.pages.size(); ++page) {
      ++out.page_count;
      switch (group.pages[page].state) {
        case KvPageState::kFree:
          ++out.free;
          break;
        case KvPageState::kReserved:
          ++out.reserved;
          break;
        case KvPageState::kAdopted:
          ++out.adopted;
          break;
        case KvPageState::kRevoking:
          ++out.revoking;
          break;
        case KvPageState::kQuarantined:
          ++out.quarantined;
          break;
      }
    }
  }
  stats.lease_count = leases_.size();
  stats.writer_count = writers_.size();
  return stats;
}

absl::Status KvArena::CheckInvariants() const {
  for (KvGroup id : kGroups) BATON_RETURN_IF_ERROR(CheckGroup(id));
  return CheckLeases();
}

absl::Status KvArena::CheckGroup(KvGroup id) const {
  const Group& group = groups_[id];
  std::vector<bool> in_list(group.pages.size(), false);
  for (const auto& [first, count] : group.free.stretches()) {
    for (PageId page = first; page < first + count; ++page) {
      if (page == kScratchPage || page >= group.pages.size() || in_list[page])
        return absl::InternalError(
            absl::StrCat(GroupName(id), " free list: page ", page,
                         " stands twice, is out of range or is the scratch"));
      in_list[page] = true;
    }
  }
  for (PageId page = kScratchPage + 1; page < group.pages.size(); ++page) {
    const Page& entry = group.pages[page];
    const bool is_free = entry.state == KvPageState::kFree;
    const bool leased = !is_free && entry.state != KvPageState::kAdopted;
    if (is_free != in_list[page])
      return absl::InternalError(absl::StrCat(GroupName(id), " page ", page, ": free is ", is_free,
                                              ", on the free list is ", bool{in_list[page]}));
    if (leased != (entry.lease_id != 0))
      return absl::InternalError(absl::StrCat(GroupName(id), " page ", page, ": leased is ", leased,
                                              ", lease id is ", entry.lease_id));
    if (leased && !leases_.contains(entry.lease_id))
      return absl::InternalError(absl::StrCat(GroupName(id), " page ", page, ": lease ",
                                              entry.lease_id, " does not exist"));
  }
  return absl::OkStatus();
}

absl::Status KvArena::CheckLeases() const {
  std::array<size_t, kKvGroupCount> leased = {};
  for (const auto& [lease_id, lease] : leases_) {
    if (lease_id == 0 || lease_id > last_lease_id_)
      return absl::InternalError(absl::StrCat("lease ", lease_id, " was never given out"));
    if (!HoldsAll(lease.pages, lease.state, lease_id))
      return absl::InternalError(
          absl::StrCat("lease ", lease_id, ": a page has another state, generation or lease"));
    if (!lease.writer_gone && !writers_.contains(lease.writer))
      return absl::InternalError(absl::StrCat("lease ", lease_id, ": writer is not attached"));
    if (lease.writer_gone && lease.state != KvPageState::kQuarantined)
      return absl::InternalError(
          absl::StrCat("lease ", lease_id, ": writer gone, not quarantined"));
    for (KvGroup id : kGroups) leased[id] += PagesOf(lease.pages, id).page_ids.size();
  }
  for (KvGroup id : kGroups) {
    size_t marked = 0;
    for (const Page& page : groups_[id].pages) marked += page.lease_id != 0;
    if (marked != leased[id])
      return absl::InternalError(absl::StrCat(GroupName(id), " pages under lease: marked ", marked,
                                              ", in leases ", leased[id]));
  }
  return absl::OkStatus();
}

}  // namespace baton
