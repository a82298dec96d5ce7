// What an S3-compatible server answers, and where the settings of a bucket come from. The store
// itself is tested against a real server (tests/e2e/prefix_store).
#include <gtest/gtest.h>
#include <stdlib.h>

#include "engine/worker/s3_answers.hpp"
#include "engine/worker/s3_settings.hpp"

namespace millrace::worker {
namespace {

TEST(S3Answers, AListing) {
  const auto page = parse_s3_listing(
      R"(<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">)"
      "<Name>b</Name><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>1ueG&amp;c/+=</NextContinuationToken>"
      "<Contents><Key>f/a.kv</Key><LastModified>2024-02-29T23:59:59.000Z</LastModified>"
      "<ETag>&quot;e&quot;</ETag><Size>434234</Size><StorageClass>S</StorageClass></Contents>"
      "<Contents><Key>f/a&lt;b</Key><LastModified>1970-01-02T00:00:01Z</LastModified>"
      "<Size>0</Size></Contents></ListBucketResult>");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->next, "1ueG&c/+=");
  EXPECT_FALSE(page->cut_off);
  ASSERT_EQ(page->objects.size(), 2u);
  EXPECT_EQ(page->objects[0].key, "f/a.kv");
  EXPECT_EQ(page->objects[0].bytes, 434234u);
  EXPECT_EQ(page->objects[0].modified_s, 1709251199);
  EXPECT_EQ(page->objects[1].key, "f/a<b");
  EXPECT_EQ(page->objects[1].modified_s, 86401);
}

TEST(S3Answers, TheLastPageAndWhatIsNoListing) {
  const auto last = parse_s3_listing(
      "<ListBucketResult><IsTruncated>false</IsTruncated>"
      "<NextContinuationToken>x</NextContinuationToken>"
      "</ListBucketResult>");
  ASSERT_TRUE(last);
  EXPECT_EQ(last->next, "");
  EXPECT_FALSE(last->cut_off);
  EXPECT_TRUE(last->objects.empty());
  EXPECT_FALSE(parse_s3_listing("<html>sign in first</html>"));
  EXPECT_FALSE(parse_s3_listing(""));
  for (const char* bad : {"<Size>x</Size>", "<Size>1</Size>",
                          "<Size>1</Size><LastModified>yesterday</LastModified>"}) {
    EXPECT_FALSE(parse_s3_listing("<ListBucketResult><Contents><Key>a</Key>" + std::string(bad) +
                                  "</Contents></ListBucketResult>"))
        << bad;
  }
}

// As a server answers that knows the first version of listings alone.
TEST(S3Answers, ATruncatedListingWithoutATokenIsNotTheLastPage) {
  for (const char* token :
       {"", "<NextContinuationToken></NextContinuationToken>", "<NextMarker>f/a.kv</NextMarker>"}) {
    const auto page = parse_s3_listing("<ListBucketResult><IsTruncated>true</IsTruncated>" +
                                       std::string(token) + "</ListBucketResult>");
    ASSERT_TRUE(page) << token;
    EXPECT_EQ(page->next, "") << token;
    EXPECT_TRUE(page->cut_off) << token;
  }
}

TEST(S3Answers, ARefusal) {
  const S3Refusal refusal = parse_s3_refusal(
      "<Error><Code>NoSuchBucket</Code><Message>The bucket &quot;b&quot; is "
      "none</Message></Error>");
  EXPECT_EQ(refusal.code, "NoSuchBucket");
  EXPECT_EQ(refusal.message, "The bucket \"b\" is none");
  EXPECT_EQ(parse_s3_refusal("<html>").code, "");
}

class S3SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : names) ::unsetenv(name);
    ::setenv("AWS_ACCESS_KEY_ID", "key", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  }
  void TearDown() override {
    for (const char* name : names) ::unsetenv(name);
  }
  static constexpr const char* names[] = {
      "AWS_ACCESS_KEY_ID",  "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",   "AWS_REGION",
      "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",      "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"};
};

TEST_F(S3SettingsTest, ComeFromTheUrlAndTheEnvironment) {
  auto settings = s3_settings("s3://my.bucket-1/fleet/gpu_2/").value();
  EXPECT_EQ(settings.bucket, "my.bucket-1");
  EXPECT_EQ(settings.folder, "fleet/gpu_2/");
  EXPECT_EQ(settings.region, "us-east-1");
  EXPECT_EQ(settings.endpoint, "");
  EXPECT_EQ(settings.key, "key");
  EXPECT_EQ(settings.secret, "secret");
  ::setenv("AWS_DEFAULT_REGION", "eu-west-1", 1);
  ::setenv("AWS_ENDPOINT_URL", "http://a:9000/", 1);
  ::setenv("AWS_SESSION_TOKEN", "token", 1);
  settings = s3_settings("s3://bucket").value();
  EXPECT_EQ(settings.folder, "");
  EXPECT_EQ(settings.region, "eu-west-1");
  EXPECT_EQ(settings.endpoint, "http://a:9000");
  EXPECT_EQ(settings.token, "token");
  ::setenv("AWS_REGION", "eu-west-2", 1);
  ::setenv("AWS_ENDPOINT_URL_S3", "https://b", 1);
  settings = s3_settings("s3://bucket/").value();
  EXPECT_EQ(settings.region, "eu-west-2");
  EXPECT_EQ(settings.endpoint, "https://b");
}

TEST_F(S3SettingsTest, WhatCannotBeUsedIsRefused) {
  for (const char* url : {"s3://", "s3:///a", "s3://b/a b", "s3://b/a//c", "s3://b?x", "s3://ü"}) {
    const auto refused = s3_settings(url);
    ASSERT_FALSE(refused) << url;
    EXPECT_EQ(refused.error().code, Code::usage);
    EXPECT_NE(refused.error().message.find(url), std::string::npos);
  }
  ::setenv("AWS_ENDPOINT_URL", "localhost:9000", 1);
  EXPECT_NE(s3_settings("s3://b").error().message.find("AWS_ENDPOINT_URL localhost"),
            std::string::npos);
  ::unsetenv("AWS_ENDPOINT_URL");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  EXPECT_NE(s3_settings("s3://b").error().hint.find("AWS_SECRET_ACCESS_KEY"), std::string::npos);
}

}  // namespace
}  // namespace millrace::worker
