#!/usr/bin/env python3
"""Tests of the style rules: each rule must refuse a bad sample and accept a good one."""

import os
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arrow_rules  # noqa: E402
import cpp_text  # noqa: E402
import file_rules  # noqa: E402
import tidy_test  # noqa: E402
import tree_rules  # noqa: E402

# rule: [(path, bad text), ...], [(path, good text), ...]
FILE_SAMPLES = {
    "line_length": ([("a.cc", "x" * 101), ("a.py", "x" * 121)], [("a.cc", "x" * 100), ("a.md", "x" * 500)]),
    "file_length": ([("common/a.cc", "x;\n" * 401), ("tests/a.cc", "x;\n" * 601)],
                    [("common/a.cc", "x;\n" * 400), ("tests/a.cc", "x;\n" * 600)]),
    "function_length": (
        [("a.cc", "void F() {\n" + "x;\n" * 59 + "}\n"),
         ("a.cc", "namespace n {\nA::A(int b) : b_{b}, c_{1} {\n" + "if (x) { y; }\n" * 59 + "}\n}"),
         ("a.cc", "class A {\n int F() const {\n" + "auto f = [] { return 1; };\n" * 59 + "}\n};"),
         ("a.py", "def f():\n" + "  x = 1\n" * 60)],
        [("a.cc", "void F() {\n" + "x;\n" * 58 + "}\n"),
         ("a.cc", "const int kTable[] = {\n" + "1,\n" * 90 + "};\n"),
         ("a.cc", "class A : public B<int> {\n" + "int x();\n" * 90 + "};\n"),
         ("a.cc", "namespace n {\n" + "int x = F();\n" * 90 + "}\n")]),
    "parameter_count": ([("a.cc", "void F(int a, int b, int c, int d, int e, int f) {}")],
                        [("a.cc", "void F(std::map<int, int> a, int b, int c, int d, int e) {}"),
                         ("a.cu", "void F(int a, int b, int c, int d, int e, int f) {}")]),
    "pragma_once": ([("a.h", "int x;\n")], [("a.h", "// What.\n#pragma once\n"), ("a.cc", "int x;\n")]),
    "banned_names": ([("common/string_util.h", ""), ("a.h", "class PageManager {"), ("a.h", "struct RouterImpl {")],
                     [("common/utf8.h", ""), ("a.h", "class Implication {"), ("a.h", "// class PageManager")]),
    "cuda_ifdef": ([("kernels/a.cc", "#ifdef BATON_WITH_CUDA\n"), ("kernels/a.h", "#if defined(BATON_WITH_CUDA)\n")],
                   [("kernels/x_factory.cc", "#ifdef BATON_WITH_CUDA\n"), ("kernels/a.cc", "// BATON_WITH_CUDA")]),
    "no_throw": ([("a.cc", "throw std::runtime_error(x);")], [("a.cc", "// may throw\nF(\"throw\");")]),
    "using_namespace": ([("a.cc", "using namespace std;")], [("a.cc", "using std::string;")]),
    "todo_with_issue": ([("a.cc", "// TO" + "DO: later"), ("a.cc", "// FIX" + "ME")],
                        [("a.cc", "// TO" + "DO(#12): x")]),
    "test_names": ([("tests/a.cc", "TEST(Pool, refuses)"), ("tests/a.cc", "TEST(Pool, Refuses_It)")],
                   [("tests/a.cc", "TEST(PoolTest, RefusesIt) {"), ("tests/a.cc", "TEST_P(Pool,\nRefusesIt) {")]),
    "no_glob": ([("a/CMakeLists.txt", "file(GLOB_RECURSE x *.cc)")], [("a/CMakeLists.txt", "add_library(x a.cc)")]),
    "no_workplace": ([("a.md", "see ../sha" + "red/design"), ("a.cc", '"/wo' + 'rk/x"')],
                     [("a.md", "a/work/b, shared/x")]),
    "white_space": ([("a.cc", "int x; \n"), ("a.cc", "\tint x;\n"), ("a.sh", "echo")],
                    [("a.cc", "int x;\n"), ("a.md", "two  \n")]),
    "proto_fields": (
        [("a.proto", "// A.\nint32 a = 1;\nrepeated b.C d = 2;\n"), ("a.proto", "message A { B b = 1; }\n")],
        [("a.proto", "// A.\noptional int32 a = 1;\nenum E {\n  E_A = 0;\n}\n"), ("a.cc", "int a = 1;\n")]),
}

ROUTER = "services/router/router.cc"
TREE_SAMPLES = {
    arrow_rules.include_arrows: (
        [{ROUTER: '#include "kernels/kv/kv_layout.h"'}, {"kernels/a.cc": '#include "services/base/x.h"'},
         {"kernels/cpu/a.cc": '#include "kernels/cuda/b.h"'}, {"kernels/models/a.cc": '#include "kernels/cpu/b.h"'},
         {"services/decode/a.cc": '#include "kernels/cpu/b.h"'},
         {"services/base/a.cc": '#include "kernels/backend.h"'},
         {"services/decode/a.cc": '#include "services/prefill/b.h"'}, {"common/a.h": '#include "baton/v1/kv.pb.h"'}],
        [{ROUTER: '#include "services/base/x.h"\n#include "common/log.h"\n#include "baton/v1/kv.pb.h"'},
         {"services/decode/a.cc": '#include "kernels/backend.h"'}, {"kernels/cpu/a.cc": '#include "kernels/kv/x.h"'},
         {"kernels/backend_factory.cc": '#include "kernels/cpu/cpu_backend.h"'}]),
    arrow_rules.quoted_from_root: (
        [{"common/a.cc": '#include "b.h"'}, {"common/a.cc": '#include "common/gone.h"'}],
        [{"common/a.cc": '#include "common/b.h"\n#include <map>', "common/b.h": ""}]),
    arrow_rules.own_header_first: (
        [{"common/a.cc": '#include <map>\n#include "common/a.h"', "common/a.h": ""},
         {"tests/unit/common/a_test.cc": "#include <gtest/gtest.h>", "common/a.h": ""}],
        [{"common/a.cc": '#include "common/a.h"\n#include <map>', "common/a.h": ""},
         {"common/a.cc": "#include <map>"}]),
    arrow_rules.network_and_device_headers: (
        [{"kernels/a.cc": "#include <grpcpp/grpcpp.h>"}, {"services/base/a.cc": "#include <cuda_runtime.h>"},
         {"kernels/kv/a.cc": "#include <cuda_runtime.h>"}],
        [{"services/base/a.cc": "#include <grpcpp/grpcpp.h>"}, {"kernels/kv/kv_transport_cuda_ipc.cu":
                                                                "#include <cuda_runtime.h>"}]),
    arrow_rules.link_arrows: (
        [{"kernels/CMakeLists.txt": "baton_library(k SOURCES a.cc DEPS)",
          "services/router/CMakeLists.txt": "baton_library(r SOURCES a.cc\n  DEPS k)"},
         {"common/CMakeLists.txt": "baton_library(c SOURCES a.cc)\ntarget_link_libraries(c PUBLIC gRPC::grpc++)"}],
        [{"kernels/CMakeLists.txt": "baton_library(k SOURCES a.cc)",
          "services/decode/CMakeLists.txt": "baton_library(d SOURCES a.cc DEPS k gRPC::grpc++)"}]),
    tree_rules.every_source_has_its_test: (
        [{"common/a.cc": ""}], [{"common/a.cc": "", "tests/unit/common/a_test.cc": ""},
                               {"services/router/main.cc": ""},
                               {"common/a.cc": "", "tests/unit/b_test.cc": "// Also tests: common/c.cc, common/a.cc"}]),
    tree_rules.named_sources_exist: (
        [{"tests/unit/a_test.cc": "// Also tests: common/gone.cc"}],
        [{"tests/unit/a_test.cc": "// Also tests: common/a.cc", "common/a.cc": ""}]),
    tree_rules.exceptions_are_needed: ([{ROUTER: ""}], [{ROUTER: "", "services/router/main.cc": ""}]),
    tree_rules.every_unit_test_has_its_source: (
        [{"tests/unit/common/a_test.cc": ""}], [{"tests/unit/common/a_test.cc": "", "common/a.h": ""}]),
    tree_rules.every_source_is_built: (
        [{"common/a.cc": "", "common/CMakeLists.txt": "baton_library(x SOURCES ba.cc)"}],
        [{"common/a.cc": "", "common/CMakeLists.txt": "baton_library(x SOURCES b.cc a.cc)"},
         {"kernels/cpu/ops/a.cc": "", "kernels/cpu/CMakeLists.txt": "baton_library(x SOURCES ops/a.cc)"}]),
    tree_rules.readme_links_exist: (
        [{"README.md": "[x](docs/gone.md)"}], [{"README.md": "[x](common/a.h) [y](https://a.b) [z](#here)",
                                                "common/a.h": ""}]),
}


class FileRules(unittest.TestCase):
    def test_each_rule_has_samples(self):
        self.assertEqual({rule.__name__ for rule in file_rules.ALL}, set(FILE_SAMPLES))

    def test_bad_samples_are_refused_and_good_ones_accepted(self):
        for name, (bad, good) in FILE_SAMPLES.items():
            rule = getattr(file_rules, name)
            for path, text in bad:
                self.assertTrue(list(rule(path, text)), f"{name} accepts {path}: {text[:60]!r}")
            for path, text in good:
                self.assertEqual(list(rule(path, text)), [], f"{name} refuses {path}: {text[:60]!r}")


class TreeRules(unittest.TestCase):
    def test_each_rule_has_samples(self):
        rules = set(arrow_rules.ALL + tree_rules.ALL) - {tree_rules.readme_in_each_top_folder}
        self.assertEqual(rules, set(TREE_SAMPLES))

    def test_bad_samples_are_refused_and_good_ones_accepted(self):
        for rule, (bad, good) in TREE_SAMPLES.items():
            for files in bad:
                self.assertTrue(list(rule(files)), f"{rule.__name__} accepts {files}")
            for files in good:
                self.assertEqual(list(rule(files)), [], f"{rule.__name__} refuses {files}")

    def test_a_missing_readme_is_named(self):
        missing = {path for path, _, _ in tree_rules.readme_in_each_top_folder({"common/README.md": ""})}
        self.assertIn("kernels/README.md", missing)
        self.assertNotIn("common/README.md", missing)


class Functions(unittest.TestCase):
    def test_literals_and_comments_hold_no_braces(self):
        text = 'void F() {\n  G("}{", \'{\');  // }\n  /* } */\n}\nint b;\nvoid H() { return; }\n'
        self.assertEqual([(f.first_line, f.last_line) for f in cpp_text.functions(text)], [(1, 4), (6, 6)])

    def test_a_constructor_with_brace_initialisers_is_one_function(self):
        text = "A::A(int b, int c)\n    : b_(b), c_{c} {\n  Go();\n}\n"
        found = cpp_text.functions(text)
        self.assertEqual([(f.first_line, f.last_line) for f in found], [(2, 4)])
        self.assertEqual(cpp_text.parameter_count(found[0].header), 2)


class WholeTree(unittest.TestCase):
    def test_the_reader_needs_no_git(self):
        with tempfile.TemporaryDirectory() as root, unittest.mock.patch.dict(os.environ, PATH=""):
            for name in ("common/a.cc", "build-asan/a.cc", "tests/__pycache__/a.py"):
                os.makedirs(os.path.join(root, os.path.dirname(name)))
                with open(os.path.join(root, name), "w", encoding="utf-8") as stream:
                    stream.write("int x;")
            self.assertEqual(tidy_test.file_names(root), ["common/a.cc"])

    def test_the_reader_sees_this_file(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        self.assertIn("tests/style/rules_test.py", tidy_test.read_tree(root))

    def test_a_violation_is_reported_with_its_rule(self):
        found = list(tidy_test.violations({"common/a.h": "int x;\n"}))
        self.assertIn(("common/a.h", 1, "pragma_once", "header without #pragma once"), found)


if __name__ == "__main__":
    unittest.main()
