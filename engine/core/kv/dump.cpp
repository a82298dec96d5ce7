#include "engine/core/dump.hpp"

#include "engine/core/kv/prefix_tree.hpp"

namespace millrace::engine {

void PagePool::dump(std::ostream& out) const {
  out << "pool idle " << idle_;
  dump_list(out, "references", references_);
  dump_list(out, "kept", kept_);
  dump_list(out, "free", free_);
}

void CachePools::dump(std::ostream& out) const {
  for (const PagePool& pool : pools_) pool.dump(out);
}

void PrefixTree::dump(std::ostream& out, const Space& space) const {
  out << "tree " << size_ << " uses " << uses_;
  for (const Entry& entry : entries(space)) {
    out << "\n  page " << entry.page << " promised " << entry.promised << " by " << entry.writer
        << " keep " << static_cast<int>(entry.keep) << " used " << entry.used;
    dump_list(out, "windowed", entry.windowed);
    dump_list(out, "path", entry.path);
  }
}

}  // namespace millrace::engine
