// What the option --traces and OpenTelemetry's environment variables say.
#include "schemas/trace/settings.hpp"

#include <gtest/gtest.h>

#include <map>

#include "schemas/base/log.hpp"

namespace millrace::trace {
namespace {

class TraceSettingsTest : public testing::Test {
 protected:
  TraceSettingsTest() {
    set_up_logging({LogLevel::warn, true, [this](std::string_view line) { lines_ += line; }});
  }
  ~TraceSettingsTest() override { set_up_logging({}); }

  using Variables = std::map<std::string, std::string>;
  Result<Settings> read(const std::string& url, const Variables& variables) {
    return read_settings(url, {"millrace-broker", "1.2"}, [&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? std::string() : found->second;
    });
  }
  std::string url(const std::string& option, const Variables& variables = {}) {
    const auto settings = read(option, variables);
    return settings ? settings->url : "refused";
  }
  std::string resource(const Settings& settings, const std::string& name) {
    std::string out;
    for (const Attribute& one : settings.resource.list()) {
      if (one.name == name) out += std::get<std::string>(one.value) + ";";
    }
    return out;
  }

  std::string lines_;
};

constexpr const char* base = "OTEL_EXPORTER_OTLP_ENDPOINT";
constexpr const char* own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

TEST_F(TraceSettingsTest, WithoutAUrlThereAreNoSpans) {
  EXPECT_EQ(url(""), "");
  EXPECT_EQ(url("", {{base, ""}}), "");
}

TEST_F(TraceSettingsTest, TheUrlOfTheOption) {
  EXPECT_EQ(url("http://here:4318"), "http://here:4318/v1/traces");
  EXPECT_EQ(url("http://here:4318/"), "http://here:4318/v1/traces");
  EXPECT_EQ(url("https://here/otlp"), "https://here/otlp");
  EXPECT_EQ(url("http://here", {{base, "http://there"}}), "http://here/v1/traces");
  for (const char* bad : {"here:4318", "grpc://here", "http://", "http:///v1"}) {
    EXPECT_EQ(url(bad), "refused") << bad;
  }
}

TEST_F(TraceSettingsTest, TheUrlOfTheEnvironment) {
  EXPECT_EQ(url("", {{base, "http://there:4318"}}), "http://there:4318/v1/traces");
  EXPECT_EQ(url("", {{base, "http://there/a/"}}), "http://there/a/v1/traces");
  EXPECT_EQ(url("", {{base, "http://there"}, {own, "http://other/x"}}), "http://other/x");
  EXPECT_EQ(url("", {{own, "http://other"}}), "http://other");
  EXPECT_EQ(url("", {{own, "http://other"}, {"OTEL_SDK_DISABLED", "true"}}), "");
  EXPECT_EQ(url("", {{own, "http://other"}, {"OTEL_TRACES_EXPORTER", "none"}}), "");
  EXPECT_EQ(lines_, "");
}

TEST_F(TraceSettingsTest, AUrlThatCannotBeUsedIsLogged) {
  EXPECT_EQ(url("", {{own, "there:4317"}}), "");
  EXPECT_NE(lines_.find(own), std::string::npos) << lines_;
  lines_.clear();
  EXPECT_EQ(url("", {{base, "http://there:4317"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}), "");
  EXPECT_NE(lines_.find("grpc"), std::string::npos) << lines_;
}

TEST_F(TraceSettingsTest, APasswordIsNotLogged) {
  EXPECT_EQ(url("", {{own, "ftp://me:s3cret@there/x"}}), "");
  EXPECT_EQ(url("", {{base, "me:s3cret@there"}}), "");
  EXPECT_EQ(url("", {{own, "http://me:s3@cret@there"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}),
            "");
  EXPECT_NE(lines_.find("ftp://there/x"), std::string::npos) << lines_;
  EXPECT_NE(lines_.find("http://there"), std::string::npos) << lines_;
  EXPECT_EQ(lines_.find("cret"), std::string::npos) << lines_;
  EXPECT_EQ(check_url("me:s3cret@there").error().text().find("s3cret"), std::string::npos);
  EXPECT_EQ(without_password("http://there/a@b"), "http://there/a@b");
}

TEST_F(TraceSettingsTest, AnEscapeHasTwoDigits) {
  const auto settings =
      read("http://here", {{"OTEL_EXPORTER_OTLP_HEADERS", "a=%-1,b=%+1,c=%4,d=%4g,e=%41"}});
  std::string values;
  for (const auto& [name, value] : settings->headers) values += value + " ";
  EXPECT_EQ(values, "%-1 %+1 %4 %4g A ");
}

TEST_F(TraceSettingsTest, Headers) {
  const auto settings =
      read("http://here",
           {{"OTEL_EXPORTER_OTLP_HEADERS", "a=b, key = x%20y ,authorization=Basic%20Zg=="}});
  using Headers = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(settings->headers,
            (Headers{{"a", "b"}, {"key", "x y"}, {"authorization", "Basic Zg=="}}));
  EXPECT_EQ(lines_, "");
}

TEST_F(TraceSettingsTest, DamagedHeadersAreLeftOutAndNotShown) {
  for (const char* bad : {"secret", "=secret", "a=secret%0d%0aHost: x"}) {
    lines_.clear();
    const auto settings = read("http://here", {{"OTEL_EXPORTER_OTLP_HEADERS", bad}});
    EXPECT_TRUE(settings->headers.empty()) << bad;
    EXPECT_NE(lines_.find("OTEL_EXPORTER_OTLP_HEADERS"), std::string::npos);
    EXPECT_EQ(lines_.find("secret"), std::string::npos) << lines_;
  }
}

TEST_F(TraceSettingsTest, TheNameOfTheService) {
  EXPECT_EQ(resource(*read("http://here", {}), "service.name"), "millrace-broker;");
  const Variables listed{{"OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,deployment=test"}};
  EXPECT_EQ(resource(*read("http://here", listed), "service.name"), "mine;");
  EXPECT_EQ(resource(*read("http://here", listed), "deployment"), "test;");
  EXPECT_EQ(resource(*read("http://here", listed), "service.version"), "1.2;");
  Variables both = listed;
  both["OTEL_SERVICE_NAME"] = "first";
  EXPECT_EQ(resource(*read("http://here", both), "service.name"), "first;");
}

TEST_F(TraceSettingsTest, NumbersAndTheSampler) {
  const auto settings = read("http://here", {{"OTEL_EXPORTER_OTLP_TIMEOUT", "100"},
                                             {"OTEL_BSP_SCHEDULE_DELAY", "7"},
                                             {"OTEL_BSP_MAX_QUEUE_SIZE", "9"},
                                             {"OTEL_TRACES_SAMPLER", "always_on"}});
  EXPECT_EQ(settings->timeout_ms, 100u);
  EXPECT_EQ(settings->delay_ms, 7u);
  EXPECT_EQ(settings->queue_spans, 9u);
  EXPECT_EQ(settings->batch_spans, 9u);
  EXPECT_TRUE(settings->sampler.takes_roots());
  EXPECT_EQ(lines_, "");
  const auto bad =
      read("http://here", {{"OTEL_BSP_SCHEDULE_DELAY", "soon"}, {"OTEL_TRACES_SAMPLER", "some"}});
  EXPECT_EQ(bad->delay_ms, Settings().delay_ms);
  EXPECT_FALSE(bad->sampler.takes_roots());
  EXPECT_NE(lines_.find("OTEL_BSP_SCHEDULE_DELAY"), std::string::npos) << lines_;
  EXPECT_NE(lines_.find("there is no sampler some"), std::string::npos) << lines_;
}

}  // namespace
}  // namespace millrace::trace
