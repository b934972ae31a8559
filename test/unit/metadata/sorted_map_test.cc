#include "metadata/sorted_map.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>

#include "base/random.h"

using namespace mq;
using mq::metadata::SortedMap;

namespace {

template <class Key, class Value>
std::map<Key, Value> contentOf(const SortedMap<Key, Value>& map) {
  std::map<Key, Value> content;
  size_t count = 0;
  for (auto& [key, value] : map) {
    if (!content.empty()) CHECK(content.rbegin()->first < key);
    content.emplace(key, value);
    ++count;
  }
  CHECK(count == map.size());
  return content;
}

}  // namespace

TEST_CASE("A sorted map and all its copies behave like std::map under random changes") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Prng random(seed);
    struct Pair {
      SortedMap<int, int> map;
      std::map<int, int> model;
    };
    std::vector<Pair> copies(1);
    for (int step = 0; step < 3000; ++step) {
      if (random.chance(1, 100) && copies.size() < 8) copies.push_back(copies[random.below(copies.size())]);
      auto& [map, model] = copies[random.below(copies.size())];
      int key = static_cast<int>(random.below(1000));
      // Phases of growing and of shrinking, so that chunks split and merge.
      if (random.chance(step % 1000 < 600 ? 4 : 1, 5)) {
        map.set(key, step);
        model[key] = step;
      } else {
        CHECK(map.erase(key) == (model.erase(key) == 1));
      }
      int probe = static_cast<int>(random.below(1000));
      auto expected = model.find(probe);
      auto found = map.find(probe);
      CHECK((found != nullptr) == (expected != model.end()));
      if (found) CHECK(*found == expected->second);
      auto lower = map.lowerBound(probe);
      auto expectedLower = model.lower_bound(probe);
      CHECK((lower == map.end()) == (expectedLower == model.end()));
      if (lower != map.end()) CHECK(lower->first == expectedLower->first);
    }
    for (auto& [map, model] : copies) CHECK(contentOf(map) == model);
  }
}

TEST_CASE("Strings are found by view, and an empty map finds nothing") {
  SortedMap<std::string, int> map;
  CHECK(map.find(std::string_view("a")) == nullptr);
  CHECK(map.begin() == map.end());
  CHECK_FALSE(map.erase("a"));
  map.set("b", 2);
  map.set("a", 1);
  CHECK(*map.find(std::string_view("a")) == 1);
  CHECK(map.lowerBound(std::string_view("aa"))->first == "b");
  CHECK(map.erase("a"));
  CHECK(map.erase("b"));
  CHECK(map.begin() == map.end());
}
