// What the embedded brokers of `millrace run` and `millrace serve` keep.
#include "client/run/broker_options.hpp"

#include <gtest/gtest.h>

#include "broker/server/settings.hpp"

namespace millrace::client {
namespace {

TEST(BrokerOptions, ARunKeepsEverything) {
  const auto options = broker_options({});
  EXPECT_EQ(options.core.retention, broker::RetentionPolicy());
  EXPECT_EQ(options.disk_marks, nullptr);
}

TEST(BrokerOptions, AServiceDeletesOldResultsAndLeavesRoomOnTheDisk) {
  BackendOptions service;
  service.service = true;
  const auto options = broker_options(service);
  broker::CoreConfig usual;
  broker::apply(broker::Settings(), usual);
  EXPECT_EQ(options.core.retention, usual.retention);
  EXPECT_NE(options.core.retention, broker::RetentionPolicy());
  ASSERT_NE(options.disk_marks, nullptr);
  EXPECT_EQ(options.disk_marks->low, broker::Settings().disk_low);
  EXPECT_EQ(options.disk_marks->high, broker::Settings().disk_high);
  EXPECT_EQ(options.disk_marks->warn, broker::Settings().disk_warn);
}

}  // namespace
}  // namespace millrace::client
