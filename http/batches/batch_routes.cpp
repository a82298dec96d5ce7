// The Batch API: creating, reading, listing and cancelling batches.
#include <utility>

#include "http/batches/batch_face.hpp"
#include "http/batches/paging.hpp"

namespace millrace::http {
namespace {

constexpr std::int64_t us_per_s = 1'000 * us_per_ms;
constexpr std::size_t usual_batches_listed = 20, most_batches_listed = 100;
constexpr std::uint64_t request_bytes = 64 * 1024;

using openai::BatchStatus;

Response json_answer(const openai::BatchObject& batch) {
  return {.status = 200, .body = openai::batch_json(batch), .headers = {}};
}

std::unexpected<Error> no_batch(std::string_view id) {
  return fail(Code::not_found, "there is no batch " + std::string(id),
              "GET /v1/batches lists yours");
}

Status check_input(const std::optional<StoredFile>& file, const std::string& id) {
  if (!file) {
    return fail(Code::not_found, "input_file_id: there is no file " + id,
                "upload it with POST /v1/files; GET /v1/files lists yours");
  }
  if (file->object.purpose == openai::batch_purpose) return {};
  return fail(Code::invalid_value,
              "input_file_id: the file's purpose is " + file->object.purpose + ", not batch",
              "upload the requests with purpose=batch");
}

}  // namespace

Result<Response> BatchFace::create_batch(Exchange& exchange, const Holder& holder) {
  if (!holder.roles.allow(KeyRole::read)) {
    return fail(Code::unauthorized, "a batch needs a key that may submit and read",
                "use the token of a key with both roles");
  }
  MILLRACE_ASSIGN(openai::BatchRequest wanted, openai::parse_batch_request(exchange.take_body()));
  MILLRACE_TRY(check_input(files_->find(holder.tenant, wanted.input_file), wanted.input_file));
  StoredBatch batch;
  batch.tenant = holder.tenant;
  batch.created_us = clock_.wall_us();
  batch.output = FileStore::new_id();
  batch.errors = FileStore::new_id();
  batch.output_expires_s = wanted.output_expires_s;
  openai::BatchObject& object = batch.object;
  object.id = BatchStore::new_id();
  object.endpoint = wanted.endpoint;
  object.input_file = std::move(wanted.input_file);
  object.window = std::move(wanted.window);
  object.created_s = batch.created_us / us_per_s;
  object.expires_s = object.created_s + static_cast<std::int64_t>(wanted.window_s);
  object.metadata = std::move(wanted.metadata);
  MILLRACE_TRY(batches_->add(batch));
  attend(holder);
  return json_answer(object);
}

Result<Response> BatchFace::cancel_batch(const Request& request, const Holder& holder) {
  const std::string id(request.part("id"));
  if (!batches_->find(holder.tenant, id)) return no_batch(id);
  const auto changed = batches_->change(id, [&](StoredBatch& batch) -> Status {
    openai::BatchObject& object = batch.object;
    if (object.status == BatchStatus::cancelling) return {};
    if (openai::is_over(object.status) || batch.finishing) {
      return fail(Code::conflict,
                  "the batch is " + std::string(openai::status_name(object.status)) +
                      " and cannot be cancelled",
                  "a batch can be cancelled until all its lines have ended");
    }
    object.status = BatchStatus::cancelling;
    object.cancelling_s = clock_.wall_us() / us_per_s;
    return {};
  });
  if (!changed) return fail(changed.error());
  attend(holder);
  return json_answer(changed->object);
}

void BatchFace::add_batch_routes(Routes& routes) {
  routes.add("POST", "/v1/batches",
             handler(KeyRole::submit, Where::work_thread,
                     [this](Exchange& exchange, const Holder& holder) {
                       return create_batch(exchange, holder);
                     }),
             request_bytes);
  routes.add(
      "GET", "/v1/batches",
      handler(KeyRole::read, Where::here,
              [this](Exchange& exchange, const Holder& holder) -> Result<Response> {
                MILLRACE_ASSIGN(
                    const Page page,
                    parse_page(exchange.request(), usual_batches_listed, most_batches_listed));
                const auto after = batches_->find(holder.tenant, page.after);
                MILLRACE_ASSIGN(std::string body, page_json(batches_->list(holder.tenant), page,
                                                            after.transform(place_of<StoredBatch>),
                                                            openai::write_batch));
                return Response{.status = 200, .body = std::move(body), .headers = {}};
              }));
  routes.add("GET", "/v1/batches/{id}",
             handler(KeyRole::read, Where::here,
                     [this](Exchange& exchange, const Holder& holder) -> Result<Response> {
                       const std::string id(exchange.request().part("id"));
                       const auto batch = batches_->find(holder.tenant, id);
                       if (!batch) return no_batch(id);
                       return json_answer(batch->object);
                     }));
  routes.add("POST", "/v1/batches/{id}/cancel",
             handler(KeyRole::submit, Where::work_thread,
                     [this](Exchange& exchange, const Holder& holder) {
                       return cancel_batch(exchange.request(), holder);
                     }),
             request_bytes);
}

}  // namespace millrace::http
