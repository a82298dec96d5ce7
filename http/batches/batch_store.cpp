#include "http/batches/batch_store.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "http/batches/paging.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::http {
namespace {

Result<StoredBatch> read_record(const std::string& text) {
  try {
    const auto value = nlohmann::json::parse(text);
    StoredBatch batch;
    value.at("tenant").get_to(batch.tenant);
    value.at("created_us").get_to(batch.created_us);
    value.at("last_line").get_to(batch.last_line);
    value.at("output").get_to(batch.output);
    value.at("errors").get_to(batch.errors);
    value.at("finishing").get_to(batch.finishing);
    const auto& expires = value.at("output_expires_s");
    if (!expires.is_null()) batch.output_expires_s = expires.get<std::uint64_t>();
    MILLRACE_ASSIGN(batch.object, openai::read_batch(value.at("batch").dump()));
    return batch;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::ledger_corrupt, std::string("it is no record: ") + error.what());
  }
}

}  // namespace

Result<std::unique_ptr<BatchStore>> BatchStore::open(Env& env, std::string folder,
                                                     std::size_t kept_per_tenant) {
  std::unique_ptr<BatchStore> store(new BatchStore(env, std::move(folder), kept_per_tenant));
  MILLRACE_TRY(env.make_directories(store->folder_ + "/results"));
  MILLRACE_TRY(store->load());
  return store;
}

Status BatchStore::load() {
  const auto take = [this](const std::string& text) -> Status {
    MILLRACE_ASSIGN(StoredBatch batch, read_record(text));
    std::string id = batch.object.id;
    batches_.emplace(std::move(id), std::move(batch));
    return {};
  };
  MILLRACE_ASSIGN(const auto others, records_.load(take));
  for (const std::string& name : others) MILLRACE_TRY(env_.remove(records_.path_of(name)));
  return drop_rests();
}

// What a crash has left of batches that are over.
Status BatchStore::drop_rests() {
  MILLRACE_ASSIGN(const auto names, env_.list(folder_ + "/results"));
  for (const std::string& name : names) {
    const std::string id = name.substr(0, name.find('.'));
    const auto batch = batches_.find(id);
    // What belongs to a record that cannot be read stays.
    MILLRACE_ASSIGN(const bool has_record, records_.has(id));
    const bool known = batch != batches_.end();
    if (known ? !openai::is_over(batch->second.object.status) : has_record) continue;
    MILLRACE_TRY(env_.remove(folder_ + "/results/" + name));
  }
  return {};
}

std::string BatchStore::new_id() {
  return "batch_" + random_id();
}

Status BatchStore::save(const StoredBatch& batch) {
  std::string text;
  JsonWriter json(text);
  json.begin_object()
      .field("tenant", batch.tenant)
      .field("created_us", batch.created_us)
      .field("last_line", batch.last_line)
      .field("output", batch.output)
      .field("errors", batch.errors)
      .field("finishing", batch.finishing)
      .key("output_expires_s");
  if (batch.output_expires_s) {
    json.value(*batch.output_expires_s);
  } else {
    json.null();
  }
  json.key("batch");
  openai::write_batch(json, batch.object);
  json.end_object();
  return records_.save(batch.object.id, text);
}

// Forgets the oldest batch that is over where there are too many.
Status BatchStore::make_room(const std::string& tenant) {
  MILLRACE_ASSIGN(const std::string id, one_too_many(tenant));
  if (id.empty()) return {};
  MILLRACE_TRY(records_.remove(id));  // without the lock: requests read the list meanwhile
  const std::scoped_lock lock(mutex_);
  batches_.erase(id);
  return {};
}

// Empty: there is room for another one. Errors: overloaded.
Result<std::string> BatchStore::one_too_many(const std::string& tenant) {
  std::size_t unfinished = 0, all = 0;
  const StoredBatch* oldest = nullptr;
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, batch] : batches_) {
    if (batch.tenant != tenant) continue;
    ++all;
    if (!openai::is_over(batch.object.status)) {
      ++unfinished;
    } else if (oldest == nullptr || place_of(batch) < place_of(*oldest)) {
      oldest = &batch;
    }
  }
  if (unfinished >= open_per_tenant) {
    return fail(Error{Code::overloaded,
                      std::to_string(unfinished) + " of your batches are not over yet",
                      "create it again when some of them are over", limits::retry_room_ms});
  }
  return all < kept_per_tenant_ || oldest == nullptr ? std::string() : oldest->object.id;
}

Status BatchStore::add(StoredBatch batch) {
  const std::scoped_lock change(change_mutex_);
  MILLRACE_TRY(make_room(batch.tenant));
  MILLRACE_TRY(save(batch));
  const std::scoped_lock lock(mutex_);
  std::string id = batch.object.id;
  batches_.emplace(std::move(id), std::move(batch));
  return {};
}

std::optional<StoredBatch> BatchStore::find(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto found = batches_.find(id);
  return found == batches_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<StoredBatch> BatchStore::find(const std::string& tenant, const std::string& id) {
  auto batch = find(id);
  return batch && batch->tenant == tenant ? std::move(batch) : std::nullopt;
}

std::vector<StoredBatch> BatchStore::list(const std::string& tenant) {
  std::vector<StoredBatch> batches;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, batch] : batches_) {
      if (batch.tenant == tenant) batches.push_back(batch);
    }
  }
  std::ranges::sort(batches, {}, place_of<StoredBatch>);
  return batches;
}

Result<StoredBatch> BatchStore::change(const std::string& id,
                                       const std::function<Status(StoredBatch&)>& change) {
  const std::scoped_lock one(change_mutex_);
  auto batch = find(id);
  if (!batch) return fail(Code::not_found, "there is no batch " + id);
  MILLRACE_TRY(change(*batch));
  MILLRACE_TRY(save(*batch));
  const std::scoped_lock lock(mutex_);
  batches_[id] = *batch;
  return *std::move(batch);
}

void BatchStore::count(const std::string& id, std::uint64_t completed, std::uint64_t failed) {
  const std::scoped_lock lock(mutex_);
  const auto found = batches_.find(id);
  if (found == batches_.end()) return;
  found->second.object.completed = completed;
  found->second.object.failed = failed;
}

std::vector<std::string> BatchStore::unfinished(const std::string& tenant) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, batch] : batches_) {
      if (batch.tenant == tenant && !openai::is_over(batch.object.status)) {
        found.push_back(place_of(batch));
      }
    }
  }
  std::ranges::sort(found);
  std::vector<std::string> ids;
  for (auto& [created_us, id] : found) ids.push_back(std::move(id));
  return ids;
}

bool BatchStore::reads(const std::string& file) {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(batches_, [&](const auto& one) {
    return one.second.object.input_file == file && !openai::is_over(one.second.object.status);
  });
}

std::set<std::string> BatchStore::files_to_come() {
  std::set<std::string> files;
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, batch] : batches_) {
    if (openai::is_over(batch.object.status)) continue;
    files.insert(batch.output);
    files.insert(batch.errors);
  }
  return files;
}

}  // namespace millrace::http
