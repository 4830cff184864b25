// The headers of the standard library that most files read, which is half of what it takes to compile one: the Makefile has them
// read once and puts them before each file that is compiled for any processor. Every file includes what it uses all the same:
// `make SANITIZE=1`, and the kernels of an instruction set, go without this.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>
