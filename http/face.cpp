#include "http/face.hpp"

#include <charconv>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "http/address.hpp"
#include "http/batches/batch_face.hpp"
#include "http/completion.hpp"
#include "http/links.hpp"
#include "http/live.hpp"
#include "http/models.hpp"
#include "http/page.hpp"
#include "http/problem.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/names.hpp"

namespace millrace::http {
namespace {

constexpr auto sweep_time = std::chrono::seconds(10);

class BrokerFace final : public Face {
 public:
  explicit BrokerFace(FaceOptions options)
      : options_(std::move(options)),
        completion_{.timeout_ms = options_.timeout_ms,
                    .token_bytes = options_.token_bytes,
                    .traces = options_.traces},
        links_({.endpoint = options_.endpoint, .keys = options_.keys}) {}
  ~BrokerFace() override { stop(0); }

  Status begin();
  const std::string& url() const override { return server_->url(); }
  Server& server() override { return *server_; }
  void stop(std::uint32_t wait_ms) override;

 private:
  using Exchanged = std::shared_ptr<Exchange>;
  Routes routes();
  std::optional<Response> admit(const Request& request);
  std::shared_ptr<Link> link_for(Exchange& exchange);
  void complete(const Exchanged& exchange, openai::Endpoint endpoint);
  using Answer = std::function<Response(const Result<StatusAnswer>& status)>;
  void with_status(const Exchanged& exchange, Answer answer);
  using Look = std::function<void(Live& live, Live::Use use)>;
  void look(const Exchanged& exchange, Look look);
  void add_live_routes(Routes& routes);
  void sweep();

  const FaceOptions options_;
  const CompletionOptions completion_;
  const std::int64_t created_s_ = SystemClock().wall_us() / (1'000 * us_per_ms);
  Links links_;
  std::unique_ptr<BatchFace> batches_;  // none: the server keeps no files
  std::unique_ptr<Server> server_;
  std::mutex mutex_, join_mutex_;  // the second is of the sweeper's end
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread sweeper_;
};

Status BrokerFace::begin() {
  MILLRACE_TRY(check_face(options_));
  if (!options_.files.empty()) {
    MILLRACE_ASSIGN(
        batches_,
        BatchFace::open({.folder = options_.files,
                         .endpoint = options_.endpoint,
                         .token_bytes = options_.token_bytes,
                         .file_limits = {options_.spare_bytes, options_.tenant_files_bytes}},
                        links_));
  }
  ServerOptions server;
  server.listen = options_.listen;
  server.certificate = options_.certificate;
  server.key = options_.key;
  server.origins = {options_.allow_origins, !links_.keyed()};
  server.limits = options_.limits;
  server.admit = [this](const Request& request) { return admit(request); };
  server.refuse = [](int status, const Error& error) { return problem(error, status); };
  MILLRACE_ASSIGN(server_, Server::start(std::move(server), routes()));
  sweeper_ = std::thread([this] { sweep(); });
  return {};
}

void BrokerFace::stop(std::uint32_t wait_ms) {
  if (server_) server_->stop(wait_ms);
  if (batches_) batches_->stop();
  links_.end_all();
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  const std::scoped_lock join(join_mutex_);
  if (sweeper_.joinable()) sweeper_.join();
}

void BrokerFace::sweep() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, sweep_time, [&] { return stopping_; })) {
    links_.end_idle();
    if (batches_) batches_->sweep();
  }
}

// Refuses a request for a broker with keys before its body is read.
std::optional<Response> BrokerFace::admit(const Request& request) {
  if (!request.path.starts_with("/v1/") && request.path != "/metrics" && request.path != "/live" &&
      !request.path.starts_with("/live/")) {
    return std::nullopt;
  }
  const Status allowed = links_.check(request.header("Authorization"));
  if (allowed) return std::nullopt;
  return problem(allowed.error(), allowed.error().code == Code::unauthorized ? 401 : 503);
}

std::shared_ptr<Link> BrokerFace::link_for(Exchange& exchange) {
  auto link = links_.of(exchange.request().header("Authorization"));
  if (link) return *std::move(link);
  const Error& error = link.error();
  exchange.respond(error.code == Code::unauthorized ? problem(error, 401) : problem(error));
  return nullptr;
}

void BrokerFace::complete(const Exchanged& exchange, openai::Endpoint endpoint) {
  const auto link = link_for(*exchange);
  if (!link) return;
  auto completion = std::make_shared<Completion>(exchange, endpoint, completion_);
  exchange->on_gone([completion, weak = std::weak_ptr<Link>(link)] {
    if (const auto its = weak.lock()) {
      its->post([completion](Desk* desk, const Error&) {
        if (desk != nullptr) completion->leave(*desk);
      });
    }
  });
  link->post([completion](Desk* desk, const Error& error) {
    if (desk != nullptr) {
      completion->begin(*desk);
    } else {
      completion->refuse(error);
    }
  });
}

void BrokerFace::with_status(const Exchanged& exchange, Answer answer) {
  const auto link = link_for(*exchange);
  if (!link) return;
  link->post([exchange, answer = std::move(answer)](Desk* desk, const Error& error) {
    if (desk == nullptr) return exchange->respond(answer(std::unexpected(error)));
    desk->with_status([exchange, answer](const Result<StatusAnswer>& status) {
      exchange->respond(answer(status));
    });
  });
}

// Answers with what the live page asks for.
void BrokerFace::look(const Exchanged& exchange, Look look) {
  const auto link = link_for(*exchange);
  if (!link) return;
  link->post([exchange, look = std::move(look)](Desk* desk, const Error& error) {
    if (desk == nullptr) return exchange->respond(problem(error));
    look(desk->live(), [exchange](const Result<std::string>& json) {
      if (!json) return exchange->respond(problem(json.error()));
      exchange->respond({.body = *json, .headers = {{"Cache-Control", "no-store"}}});
    });
  });
}

void BrokerFace::add_live_routes(Routes& routes) {
  routes.add("GET", "/live", [this](const Exchanged& exchange) {
    const std::string_view since = exchange->request().argument("since");
    std::int64_t since_us = 0;
    const char* const end = since.data() + since.size();
    const auto [rest, wrong] = std::from_chars(since.data(), since.data() + since.size(), since_us);
    if (!since.empty() && (wrong != std::errc() || rest != end)) {
      return exchange->respond(
          problem({Code::invalid_value,
                   "since: `" + std::string(since) + "` is no time_us of a view",
                   "use that of the view before, a whole number",
                   {}}));
    }
    look(exchange,
         [since_us](Live& live, Live::Use use) { live.with_view(since_us, std::move(use)); });
  });
  routes.add("GET", "/live/jobs", [this](const Exchanged& exchange) {
    const Request& request = exchange->request();
    const auto argument = [&](const char* name) { return std::string(request.argument(name)); };
    JobsRequest question{
        .batch = argument("batch"), .stream = argument("stream"), .after = argument("after")};
    if (const std::string name = argument("state"); !name.empty()) {
      question.state = wire::from_name<JobState>(name);
      if (!question.state) {
        return exchange->respond(problem({Code::invalid_value,
                                          "state: there is no state " + name,
                                          "use queued, leased, completed, failed, cancelled or "
                                          "expired",
                                          {}}));
      }
    }
    look(exchange,
         [question](Live& live, Live::Use use) { live.with_jobs(question, std::move(use)); });
  });
  routes.add("GET", "/live/jobs/{id*}", [this](const Exchanged& exchange) {
    const std::string id(exchange->request().part("id"));
    look(exchange, [id](Live& live, Live::Use use) { live.with_job(id, std::move(use)); });
  });
}

Routes BrokerFace::routes() {
  Routes routes;
  if (options_.more_routes) options_.more_routes(routes);
  for (const auto endpoint : {openai::Endpoint::chat, openai::Endpoint::completion}) {
    routes.add("POST", openai::path_of(endpoint),
               [this, endpoint](const Exchanged& exchange) { complete(exchange, endpoint); });
  }
  const auto or_problem = [](const Result<StatusAnswer>& status, const auto& write) {
    return status ? write(*status) : problem(status.error());
  };
  routes.add("GET", "/v1/models", [this, or_problem](const Exchanged& exchange) {
    with_status(exchange, [this, or_problem](const auto& status) {
      return or_problem(status, [this](const auto& one) { return models_answer(one, created_s_); });
    });
  });
  routes.add("GET", "/v1/models/{id*}", [this, or_problem](const Exchanged& exchange) {
    const std::string id(exchange->request().part("id"));
    with_status(exchange, [this, or_problem, id](const auto& status) {
      return or_problem(status,
                        [this, id](const auto& one) { return model_answer(one, id, created_s_); });
    });
  });
  if (options_.metrics) {
    routes.add("GET", "/metrics", [this](const Exchanged& exchange) {
      const Status allowed =
          links_.check_role(exchange->request().header("Authorization"), KeyRole::operate);
      if (allowed) return options_.metrics(exchange);
      exchange->respond(problem(allowed.error()));
    });
  }
  routes.add("GET", "/health", [](const Exchanged& exchange) {
    exchange->respond({.body = "{\"status\":\"ok\"}", .headers = {}});
  });
  routes.add("GET", "/version", [files = batches_ != nullptr](const Exchanged& exchange) {
    std::string body;
    JsonWriter json(body);
    json.begin_object().field("version", MILLRACE_VERSION).field("files", files).end_object();
    exchange->respond({.body = std::move(body), .headers = {}});
  });
  add_page_routes(routes);
  add_live_routes(routes);
  routes.add("GET", "/ready", [this](const Exchanged& exchange) {
    with_status(exchange, [](const auto& status) { return ready_answer(status); });
  });
  if (batches_) {
    batches_->add_routes(routes);
  } else {
    add_routes_without_files(routes);
  }
  return routes;
}

}  // namespace

std::vector<std::string> split_origins(std::string_view list) {
  std::vector<std::string> origins;
  while (!list.empty()) {
    const auto end = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ') || one.ends_with('/')) one.remove_suffix(1);
    if (!one.empty()) origins.emplace_back(one);
  }
  return origins;
}

Status check_face(const FaceOptions& options) {
  MILLRACE_TRY(
      check_listen(options.listen, !options.keys.empty(), "the HTTP face",
                   "listen on 127.0.0.1, or make keys with `millrace keys init` and give --keys"));
  if (options.certificate.empty() != options.key.empty()) {
    return fail(Code::usage, "HTTPS needs a certificate and its key", "give both, or neither");
  }
  return {};
}

Result<std::unique_ptr<Face>> Face::start(FaceOptions options) {
  auto face = std::make_unique<BrokerFace>(std::move(options));
  MILLRACE_TRY(face->begin());
  return face;
}

}  // namespace millrace::http
