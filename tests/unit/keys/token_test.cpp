// A client's secret key as a token, and back.
#include "schemas/keys/token.hpp"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Token, SaysTheSameAsTheSecret) {
  for (int i = 0; i < 50; ++i) {
    const KeyPair key = new_key_pair();
    const auto token = token_of(key);
    ASSERT_TRUE(token);
    EXPECT_EQ(token->size(), 67u);
    const auto again = key_of_token(*token);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->secret_key, key.secret_key);
    EXPECT_EQ(again->public_key, key.public_key);
    EXPECT_TRUE(again->broker_key.empty());
  }
}

TEST(Token, OthersAreRefusedAndNotRepeated) {
  const std::string good = *token_of(new_key_pair());
  for (const std::string& bad :
       {std::string(), std::string("sk-"), good.substr(1), good + "0", good.substr(0, 66),
        "sk-" + std::string(64, 'g'), "sk-+" + good.substr(4), good.substr(0, 66) + '\0'}) {
    const auto key = key_of_token(bad);
    ASSERT_FALSE(key) << bad;
    EXPECT_EQ(key.error().code, Code::unauthorized);
    EXPECT_FALSE(key.error().text().contains(good.substr(10, 20)));
  }
  EXPECT_EQ(token_of(KeyPair{}).error().code, Code::usage);
}

}  // namespace
}  // namespace millrace
