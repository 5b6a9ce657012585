// BATON_CHECK: for what cannot happen unless the program is wrong. On in release builds; prints
// where and why, then aborts. Anything an input can cause is an absl::Status instead.
#pragma once

#include <cstdio>
#include <cstdlib>

#define BATON_CHECK(condition)                                                           \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (0)

// Returns the absl::Status of `expression` from the enclosing function unless it is OK.
#define BATON_RETURN_IF_ERROR(expression)                                          \
  do {                                                                             \
    if (auto baton_status = (expression); !baton_status.ok()) return baton_status; \
  } while (0)

#define BATON_CONCAT_INNER(a, b) a##b
#define BATON_CONCAT(a, b) BATON_CONCAT_INNER(a, b)

// BATON_ASSIGN_OR_RETURN(auto x, StatusOrExpression()): assigns the value or returns the error.
#define BATON_ASSIGN_OR_RETURN(lhs, expression) \
  BATON_ASSIGN_OR_RETURN_IMPL(BATON_CONCAT(baton_statusor_, __LINE__), lhs, expression)
#define BATON_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expression) \
  auto tmp = (expression);                                \
  if (!tmp.ok()) return tmp.status();                     \
  lhs = std::move(tmp).value()
