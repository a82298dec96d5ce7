#include "http/batches/batch_face.hpp"

#include <utility>

#include "http/batches/paging.hpp"
#include "http/problem.hpp"
#include "schemas/base/log.hpp"

namespace millrace::http {
namespace {

constexpr std::size_t most_waiting = 256;  // pieces of work for the disk
constexpr std::size_t most_files_listed = 10'000;
constexpr std::uint64_t form_bytes = Upload::most_bytes + 1024 * 1024;
constexpr std::uint32_t upload_ms = 3'600'000;

Response json_answer(std::string body) {
  return {.status = 200, .body = std::move(body), .headers = {}};
}

std::unexpected<Error> no_file(std::string_view id) {
  return fail(Code::not_found, "there is no file " + std::string(id), "GET /v1/files lists yours");
}

}  // namespace

Result<std::unique_ptr<BatchFace>> BatchFace::open(BatchFaceOptions options, Links& links) {
  std::unique_ptr<BatchFace> face(new BatchFace(std::move(options), links));
  MILLRACE_TRY(face->load());
  return face;
}

Status BatchFace::load() {
  MILLRACE_TRY(env_->make_directories(options_.folder));
  MILLRACE_ASSIGN(lock_, env_->lock(options_.folder + "/lock"));
  MILLRACE_ASSIGN(batches_, BatchStore::open(*env_, options_.folder));
  MILLRACE_ASSIGN(files_, FileStore::open(*env_, clock_, options_.folder, batches_->files_to_come(),
                                          options_.file_limits));
  parts_.reset(new BatchParts{*env_, clock_, *files_, *batches_, options_.token_bytes});
  work_thread_ = std::make_unique<WorkThread>(most_waiting);
  sweep();
  return {};
}

void BatchFace::stop() {
  std::map<std::string, std::unique_ptr<BatchWorker>> ended;  // they are joined without the lock
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  ended.swap(workers_);
}

void BatchFace::attend(const Holder& holder) {
  if (!holder.roles.allow(KeyRole::submit) || !holder.roles.allow(KeyRole::read)) return;
  std::unique_ptr<BatchWorker> ended;
  const std::scoped_lock lock(mutex_);
  if (stopped_) return;
  auto& worker = workers_[holder.tenant];
  if (worker && worker->wake()) return;
  ended = std::move(worker);
  if (batches_->unfinished(holder.tenant).empty()) {
    workers_.erase(holder.tenant);
    return;
  }
  auto started = BatchWorker::start(*parts_, {.endpoint = options_.endpoint,
                                              .key = holder.key,
                                              .tenant = holder.tenant,
                                              .may_remove = holder.roles.has(KeyRole::admin)});
  if (started) {
    worker = *std::move(started);
  } else {
    workers_.erase(holder.tenant);
    log_error("no thread for the batches of a tenant", started.error());
  }
}

void BatchFace::sweep() {
  files_->sweep([this](const std::string& id) { return batches_->reads(id); });
  if (links_.keyed()) return;
  if (const auto holder = links_.holder_of({})) attend(*holder);
}

Handler BatchFace::handler(KeyRole role, Where where, Work work) {
  return [this, role, where, work = std::move(work)](const Exchanged& exchange) {
    auto holder = links_.holder_of(exchange->request().header("Authorization"));
    if (!holder) {
      const bool unknown = holder.error().code == Code::unauthorized;
      return exchange->respond(problem(holder.error(), unknown ? 401 : 503));
    }
    if (const Status may = Links::check_role(*holder, role); !may) {
      return exchange->respond(problem(may.error()));
    }
    attend(*holder);
    auto task = [exchange, work, holder = *std::move(holder)] {
      auto answer = work(*exchange, holder);
      exchange->respond(answer ? *std::move(answer) : problem(answer.error()));
    };
    if (where == Where::here) return task();
    if (work_thread_->add(std::move(task))) return;
    exchange->respond(problem(
        {Code::overloaded, "too many changes of files wait", "try again in a while", 1'000}, 503));
  };
}

Result<Response> BatchFace::list_files(const Request& request, const Holder& holder) {
  MILLRACE_ASSIGN(const Page page, parse_page(request, most_files_listed, most_files_listed));
  auto files = files_->list(holder.tenant);
  if (const std::string_view purpose = request.argument("purpose"); !purpose.empty()) {
    std::erase_if(files, [&](const StoredFile& one) { return one.object.purpose != purpose; });
  }
  MILLRACE_ASSIGN(std::string body,
                  page_json(std::move(files), page, files_->place(holder.tenant, page.after),
                            openai::write_file));
  return json_answer(std::move(body));
}

Result<Response> BatchFace::content_of(const Request& request, const Holder& holder) {
  const std::string id(request.part("id"));
  const auto file = files_->find(holder.tenant, id);
  if (!file) return no_file(id);
  MILLRACE_ASSIGN(auto data, files_->open_data(id));
  return Response{.status = 200,
                  .body = {},
                  .type = "application/octet-stream",
                  .headers = {},
                  .file = std::move(data),
                  .file_bytes = file->object.bytes};
}

void BatchFace::add_file_routes(Routes& routes) {
  const auto begin = [this](const Request& request) -> Result<std::unique_ptr<FormReader>> {
    MILLRACE_ASSIGN(const Holder holder, links_.holder_of(request.header("Authorization")));
    MILLRACE_TRY(Links::check_role(holder, KeyRole::submit));
    MILLRACE_TRY(files_->check_room(holder.tenant));
    MILLRACE_ASSIGN(auto place, uploads_.enter(holder.tenant));
    return std::make_unique<Upload>(*files_, clock_, holder.tenant, std::move(place));
  };
  routes.add_form("POST", "/v1/files", begin,
                  handler(KeyRole::submit, Where::work_thread,
                          [](Exchange& exchange, const Holder&) -> Result<Response> {
                            const auto upload =
                                std::dynamic_pointer_cast<Upload>(exchange.take_form());
                            MILLRACE_ASSIGN(const openai::FileObject file, upload->finish());
                            return json_answer(openai::file_json(file));
                          }),
                  form_bytes, upload_ms);
  routes.add("GET", "/v1/files",
             handler(KeyRole::read, Where::here, [this](Exchange& exchange, const Holder& holder) {
               return list_files(exchange.request(), holder);
             }));
  routes.add("GET", "/v1/files/{id}",
             handler(KeyRole::read, Where::here,
                     [this](Exchange& exchange, const Holder& holder) -> Result<Response> {
                       const std::string id(exchange.request().part("id"));
                       const auto file = files_->find(holder.tenant, id);
                       if (!file) return no_file(id);
                       return json_answer(openai::file_json(file->object));
                     }));
  routes.add("GET", "/v1/files/{id}/content",
             handler(KeyRole::read, Where::here, [this](Exchange& exchange, const Holder& holder) {
               return content_of(exchange.request(), holder);
             }));
  routes.add("DELETE", "/v1/files/{id}",
             handler(KeyRole::submit, Where::work_thread,
                     [this](Exchange& exchange, const Holder& holder) -> Result<Response> {
                       const std::string id(exchange.request().part("id"));
                       MILLRACE_TRY(files_->remove(
                           holder.tenant, id,
                           [this](const std::string& one) { return batches_->reads(one); }));
                       return json_answer(openai::deleted_file_json(id));
                     }));
}

void BatchFace::add_routes(Routes& routes) {
  add_file_routes(routes);
  add_batch_routes(routes);
}

void add_routes_without_files(Routes& routes) {
  const auto refuse = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(problem({Code::not_found,
                               "this server keeps no files, and so has no batches",
                               "start it with --http-files DIR",
                               {}}));
  };
  for (const char* path : {"/v1/files", "/v1/batches"}) {
    for (const char* method : {"GET", "POST"}) routes.add(method, path, refuse);
    for (const char* method : {"GET", "POST", "DELETE"}) {
      routes.add(method, std::string(path) + "/{rest*}", refuse);
    }
  }
}

}  // namespace millrace::http
