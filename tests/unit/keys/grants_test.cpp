// The list of allowed keys: what it accepts, and which line it complains about.
#include "schemas/keys/grants.hpp"

#include <gtest/gtest.h>

#include <random>

namespace millrace {
namespace {

const std::string key_a(public_key_bytes, 'a'), key_b(public_key_bytes, 'b');

std::string refusal(const std::string& text) {
  const auto grants = parse_grants(text);
  return grants ? "accepted" : grants.error().message;
}

TEST(Grants, AListSurvivesBeingWrittenAndRead) {
  using enum KeyRole;
  const std::vector<Grant> grants{{"producer", "acme", {submit, read}, key_a},
                                  {"gpu-1", "*", {work}, key_b}};
  const auto again = parse_grants(format_grants(grants));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, grants);
}

TEST(Grants, BlankLinesAndCommentsMeanNothing) {
  const auto grants = parse_grants("\n  # a comment\n\t one  t\tread " + key_a + "\r\n\n");
  ASSERT_TRUE(grants) << grants.error().text();
  ASSERT_EQ(grants->size(), 1u);
  EXPECT_EQ(grants->front().name, "one");
}

TEST(Grants, ALineThatIsWrongIsNamedByItsNumber) {
  const std::string good = "one t read " + key_a + "\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"two t read", "3 words"},
      {"two t read " + key_b + " more", "5 words"},
      {"two t fly " + key_b, "no role \"fly\""},
      {"two t read,,submit " + key_b, "no role \"\""},
      {"two t read short", "not a public key"},
      {"two t read " + std::string(public_key_bytes, '~'), "not a public key"},
      {"two t/x read " + key_b, "the tenant"},
      {"t\x01wo t read " + key_b, "name"},
      {"two * read " + key_b, "the tenant * with the roles read"},
      {"two * work,admin " + key_b, "the tenant * with the roles work,admin"},
      {"one t read " + key_b, "allowed twice"},
      {"two t read " + key_a, "are the same"},
      {"two t read rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", "manual"},
      {"two t read Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", "manual"},
  };
  for (const auto& [line, said] : cases) {
    const std::string message = refusal(good + line + "\n");
    EXPECT_NE(message.find("line 2: "), std::string::npos) << message;
    EXPECT_NE(message.find(said), std::string::npos) << message;
  }
}

TEST(Grants, AdminMaySubmitAndReadButNotWork) {
  const KeyRoles admin{KeyRole::admin};
  EXPECT_TRUE(admin.allow(KeyRole::submit));
  EXPECT_TRUE(admin.allow(KeyRole::read));
  EXPECT_FALSE(admin.allow(KeyRole::work));
  EXPECT_FALSE(KeyRoles{KeyRole::read}.allow(KeyRole::submit));
  const KeyRoles read{KeyRole::read}, work{KeyRole::work};
  EXPECT_FALSE(read.has_any({KeyRole::submit, KeyRole::admin}));
  EXPECT_EQ(read.sufficient(), (KeyRoles{KeyRole::read, KeyRole::admin}));
  EXPECT_EQ(work.sufficient(), work);
}

// Whatever stands in the file, reading it gives grants that pass their check, or an error.
TEST(Grants, DamagedListsGiveErrorsOrSoundGrants) {
  std::mt19937_64 random(7);
  const std::string sound = "one t read " + key_a + "\n# x\ntwo * work " + key_b + "\n";
  std::size_t accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = sound;
    for (std::uint64_t n = random() % 4; n-- > 0;) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    text.resize(random() % (text.size() + 1));
    const auto grants = parse_grants(text);
    if (!grants) continue;
    ++accepted;
    for (const Grant& grant : *grants) EXPECT_TRUE(check_grant(grant)) << text;
  }
  EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace millrace
