// What Boost.Fiber takes on one thread. The protocol is that of ../README.md.
#include "cases.hpp"

#include <algorithm>
#include <boost/version.hpp>
#include <cctype>
#include <iostream>
#include <sstream>
#include <string>

namespace {

// The most operations that are done, unmeasured, before those that are measured.
constexpr std::uint64_t warm_up = 10000;

struct Case {
    const char *name;
    std::chrono::nanoseconds (*run)(std::uint64_t count);
};

constexpr Case cases[] = {
    {"yield", yields},         {"fork-join", fork_join},
    {"fork", fork_batches},    {"lock", lock},
    {"ping-pong", ping_pong},  {"ping-pong-condvar", ping_pong_condvar},
    {"park", park},            {"call", call},
};

void introduce() {
    std::cout << R"({"peer":"boost-fiber","version":")" << BOOST_VERSION / 100000 << '.' << BOOST_VERSION / 100 % 1000
              << R"(","cases":[)";
    const char *comma = "";
    for (const Case &known : cases) {
        std::cout << comma << '"' << known.name << '"';
        comma = ",";
    }
    std::cout << "]}" << std::endl;
}

// Carries out `CASE N`.
void obey(const std::string &command) {
    std::istringstream words(command);
    std::string name, number;
    words >> name >> number;
    const bool digits = !number.empty() && number.size() < 19 &&
                        std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c); });
    const std::uint64_t count = digits ? std::stoull(number) : 0;
    const auto known = std::find_if(std::begin(cases), std::end(cases), [&](const Case &c) { return name == c.name; });
    if (count == 0) {
        std::cout << "error `" << command << "` is not `CASE N`" << std::endl;
    } else if (known == std::end(cases)) {
        std::cout << "error no case `" << name << "` here; the first line that was printed lists them" << std::endl;
    } else {
        known->run(std::min(count, warm_up));
        std::cout << std::max<std::int64_t>(known->run(count).count(), 1) << std::endl;
    }
}

} // namespace

int main() {
    introduce();
    for (std::string line; std::getline(std::cin, line) && line != "quit";) {
        obey(line);
    }
}
