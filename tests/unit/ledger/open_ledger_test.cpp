// The places of ledgers: folders and URLs, and what is none.
#include "broker/ledger/open_ledger.hpp"

#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

void is_folder(const std::string& text, const std::string& folder) {
  const auto place = parse_ledger_place(text);
  ASSERT_TRUE(place) << place.error().text();
  EXPECT_EQ(place->kind, LedgerPlace::Kind::sqlite);
  EXPECT_EQ(place->folder, folder);
}

TEST(LedgerPlace, AFolderIsAnSqliteLedger) {
  is_folder("ledger", "ledger");
  is_folder("/var/lib/millrace", "/var/lib/millrace");
  is_folder("a:b/c", "a:b/c");
  is_folder("./memory:", "./memory:");
  is_folder("/odd://name", "/odd://name");
  is_folder("/100%/?#", "/100%/?#");
  is_folder("sqlite:///var/lib/millrace", "/var/lib/millrace");
}

TEST(LedgerPlace, MemoryIsAskedForByName) {
  const auto place = parse_ledger_place("memory:");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->kind, LedgerPlace::Kind::memory);
}

TEST(LedgerPlace, ADatabaseIsNamedByItsUrl) {
  for (const std::string url :
       {"postgresql://host/jobs", "postgres://me:secret@a,b/jobs?sslmode=require"}) {
    const auto place = parse_ledger_place(url);
    ASSERT_TRUE(place) << place.error().text();
    EXPECT_EQ(place->kind, LedgerPlace::Kind::postgres);
    EXPECT_EQ(place->url, url);
    EXPECT_EQ(place->shown.find("secret"), std::string::npos) << place->shown;
    EXPECT_NE(place->shown.find("/jobs"), std::string::npos) << place->shown;
  }
}

TEST(LedgerPlace, WhatIsNoneIsRefusedWithAHint) {
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "no place"},
           {"postgresql://me:secret@host/jobs?x=y", "\"x\""},
           {"redis://host", "'redis:' is not known"},
           {"sqlite:ledger", "three slashes"},
           {"sqlite://ledger", "three slashes"},
           {"sqlite:///ledger?mode=ro", "no parameters"},
           {"sqlite:///my%20ledger", "no escapes"},
           {"memory://", "nothing follows"},
           {"memory:jobs", "nothing follows"}}) {
    const auto place = parse_ledger_place(text);
    ASSERT_FALSE(place) << text;
    EXPECT_EQ(place.error().code, Code::usage) << text;
    EXPECT_NE(place.error().message.find(says), std::string::npos) << place.error().text();
    if (text.find("secret") == std::string::npos) {
      EXPECT_NE(place.error().message.find(text), std::string::npos) << place.error().text();
    }
    EXPECT_EQ(place.error().text().find("secret"), std::string::npos) << place.error().text();
    EXPECT_FALSE(place.error().hint.empty()) << text;
  }
}

TEST(OpenLedger, OpensBothKindsAndPassesOnTheErrorsOfTheStore) {
  const TemporaryFolder folder;
  const auto env = posix_env();
  const auto open = [&](const std::string& text) {
    return open_ledger(*parse_ledger_place(text), {publish, {}, env.get()});
  };
  const std::vector<Operation> first{job("a")}, second{GetJob{tenant, "a"}};
  auto memory = open("memory:");
  ASSERT_TRUE(memory);
  ASSERT_EQ(memory->size(), 2u);
  EXPECT_TRUE((*memory)[0]->apply(first, start_us));
  EXPECT_TRUE((*memory)[1]->apply(second, start_us)->front()) << "both are handles on one ledger";
  const std::string inner = folder.file("not/there/yet");
  {
    auto sqlite = open("sqlite://" + inner);
    ASSERT_TRUE(sqlite) << sqlite.error().text();
    ASSERT_EQ(sqlite->size(), 1u);
    EXPECT_TRUE((*sqlite)[0]->apply(first, start_us));
    EXPECT_EQ(open(inner).error().code, Code::ledger_in_use);
  }
  const auto mode = std::filesystem::status(inner + "/" + ledger_file).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  auto again = open(inner);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_TRUE((*again)[0]->apply(second, start_us)->front()) << "a folder and its URL are one";
  EXPECT_EQ(open("/proc/nowhere").error().code, Code::not_found);
}

}  // namespace
}  // namespace millrace::broker::test
