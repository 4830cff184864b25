// Rows in tasks: each has enough of them to be worth waking a thread for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "threads/pool.h"

namespace svc::cpu {

/// Fewest numbers of a task: less work is done before another thread has woken.
constexpr int64_t kTaskNumbers = 16384;

/// Calls body(row) for each row, in tasks of enough numbers.
template <class Body>
void eachRow(ThreadPool& pool, int64_t rows, int64_t cols, const Body& body) {
  const int64_t perTask = std::max<int64_t>(1, kTaskNumbers / std::max<int64_t>(cols, 1));
  const int tasks = static_cast<int>((rows + perTask - 1) / perTask);
  pool.run(tasks, [&](int task, int) {
    const int64_t end = std::min(rows, (task + 1) * perTask);
    for (int64_t row = task * perTask; row < end; ++row) body(row);
  });
}

}  // namespace svc::cpu
