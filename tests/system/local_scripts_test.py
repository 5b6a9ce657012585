#!/usr/bin/env python3
"""deploy/local/one-gpu and two-gpu refuse with a sentence that says what is missing: run with stand-ins for the
driver's programs and for ours, so that no GPU is needed."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
NVIDIA_SMI = """
    case "$*" in
      *uuid*) for ((i = 0; i < ${GPUS:-2}; i++)); do echo "GPU-$i"; done ;;
      *memory.free*) echo "${FREE_MIB:-140000}" ;;
      "topo -p2p w") printf '  GPU0 GPU1\\nGPU0 X %s\\nGPU1 %s X\\n' "${PEER:-OK}" "${PEER:-OK}" ;;
    esac
"""
MPS = """
    if [ "$1" = -d ]; then echo "$CUDA_MPS_PIPE_DIRECTORY" >"$CALLS.mps"; exit "${MPS_STATUS:-0}"; fi
    read -r command
    case "$command" in
      get_server_list) echo 77 ;;
      get_client_list*) for ((i = 0; i < ${MPS_CLIENTS:-2}; i++)); do echo "$i"; done ;;
    esac
"""
SERVICE = """
    echo "$(basename "$0") $* sees=$CUDA_VISIBLE_DEVICES share=$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" >>"$CALLS"
    echo 'time=x msg="arena" incarnation=a bytes=1073741824 full_pages=100 window_pages=9 max_context_tokens=4096' >&2
    echo "listening address=127.0.0.1:1 metrics_port=0"
    sleep 30
"""
CLIENT = """
    case "$1" in
      status) echo '"state": "ready"'; echo '"state": "ready"' ;;
      generate) [ -z "$NO_ANSWER" ] || { echo "baton: UNAVAILABLE: no peer access"; exit 1; } ;;
    esac
"""


class LocalScriptsTest(unittest.TestCase):

    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(os.path.join(ROOT, "deploy/local"), os.path.join(self.root, "deploy/local"))
        self.driver = os.path.join(self.root, "driver")
        self.model = os.path.join(self.root, "model")
        self.calls = os.path.join(self.root, "calls")
        os.makedirs(self.model)
        for name in ("config.json", "model.safetensors"):
            with open(os.path.join(self.model, name), "wb") as stream:
                stream.truncate(4 << 20)
        self.script("driver/nvidia-smi", NVIDIA_SMI)
        self.script("driver/nvidia-cuda-mps-control", MPS)
        for name in ("baton-router", "baton-prefill", "baton-decode"):
            self.script(f"build/bin/{name}", SERVICE)
        self.script("build/bin/baton", CLIENT)

    def script(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("#!/usr/bin/env bash\n" + textwrap.dedent(text))
        os.chmod(path, 0o755)

    def run_script(self, name, *arguments, model=True, until=None, **variables):
        """The script's words; it is interrupted once `until` is among them."""
        flags = [f"--model={self.model}"] if model else []
        environment = {**os.environ, "PATH": f"{self.driver}:/usr/bin:/bin", "CALLS": self.calls, **variables}
        process = subprocess.Popen([os.path.join(self.root, "deploy/local", name), *flags, *arguments], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                                   start_new_session=True)
        words = ""
        for line in process.stdout:
            words += line
            if until is not None and until in line:
                os.killpg(process.pid, signal.SIGINT)
                until = None
        process.stdout.close()
        self.status = process.wait(timeout=60)
        return words

    def refuses(self, name, *arguments, sentence, **options):
        words = self.run_script(name, *arguments, **options)
        self.assertIn(sentence, words)
        self.assertEqual(self.status, 1, words)

    def test_arguments(self):
        self.refuses("one-gpu", model=False, sentence="say which checkpoint to serve: --model=DIR")
        self.refuses("one-gpu", "--model=/nowhere", sentence="/nowhere holds no config.json")
        self.refuses("one-gpu", "--no_such=1", sentence="unknown argument '--no_such=1'")
        self.refuses("one-gpu", "--decode_share=0", sentence="--decode_share wants a percentage from 1 to 100, found 0")
        self.refuses("one-gpu", "--prefill_share=x", sentence="found 'x'")
        self.refuses("two-gpu", "--prefill_gpu=0", sentence="both GPUs are 0")

    def test_what_is_missing(self):
        self.refuses("two-gpu", GPUS="1", sentence="wanted 2 GPU(s), found 1")
        self.refuses("two-gpu", PEER="NS", sentence="GPU 1 cannot write GPU 0's memory: wanted OK")
        self.refuses("one-gpu", FREE_MIB="5000",
                     sentence="GPU 0: wanted 8200 MiB free (the weights twice and 8 GiB for work and K/V), found 5000")
        self.refuses("two-gpu", FREE_MIB="5000", sentence="GPU 0: wanted 6148 MiB free")
        os.remove(os.path.join(self.root, "build/bin/baton-decode"))
        self.refuses("one-gpu", sentence="build/bin/baton-decode is missing: cmake --preset cuda")

    def test_a_model_without_weights_starts_nothing(self):
        os.remove(os.path.join(self.model, "model.safetensors"))
        for script in ("one-gpu", "two-gpu"):
            with self.subTest(script):
                self.refuses(script, sentence="holds no *.safetensors", until="Ctrl-C here")
                self.assertFalse(os.path.exists(self.calls), "it went on and started processes")

    def test_a_second_one_keeps_off_the_logs_of_the_first(self):
        os.makedirs(os.path.join(self.root, "build/two-gpu"))
        with open(os.path.join(self.root, "build/two-gpu/.lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            words = self.run_script("two-gpu", until="Ctrl-C here")
        self.assertRegex(words, r"Logs: build/two-gpu-\d+/")
        words = self.run_script("two-gpu", until="Ctrl-C here")
        self.assertIn("Logs: build/two-gpu/", words)

    def test_mps(self):
        for refusal in ({"MPS_STATUS": "1", "sentence": "MPS did not start"},
                        {"MPS_CLIENTS": "1", "sentence": "MPS serves 1 of 2 processes"}):
            self.refuses("one-gpu", **refusal)
            with open(self.calls + ".mps", encoding="utf-8") as stream:
                folder = stream.read().strip()
            self.assertTrue(folder.startswith("/tmp/baton-mps."), folder)
            self.assertFalse(os.path.exists(folder), f"{folder} is left")
        os.remove(os.path.join(self.driver, "nvidia-cuda-mps-control"))
        if shutil.which("nvidia-cuda-mps-control", path="/usr/bin:/bin") is None:
            self.refuses("one-gpu", sentence="no nvidia-cuda-mps-control: install the driver's MPS programs")

    def test_a_pair_that_does_not_answer(self):
        self.refuses("two-gpu", NO_ANSWER="1", sentence="baton: UNAVAILABLE: no peer access")

    def test_one_gpu_serves(self):
        words = self.run_script("one-gpu", "--gpu=1", "--decode_share=60", "--prefill:max_waiting=3",
                                until="Ctrl-C here")
        self.assertIn("KV cache: 1024 MiB, 6400 tokens in all, one request up to 4096", words)
        self.assertEqual(self.status, 130, words)
        with open(self.calls, encoding="utf-8") as stream:
            calls = stream.read()
        # MPS shows its clients the one GPU that it was given, as number 0.
        self.assertRegex(calls, r"baton-decode .*--chunk_tokens=8192 sees=0 share=60\n")
        self.assertRegex(calls, r"baton-prefill .*--chunk_tokens=8192 --max_waiting=3 sees=0 share=28\n")

    def test_two_gpu_serves(self):
        words = self.run_script("two-gpu", "--decode_gpu=1", "--prefill_gpu=0", "--chunk_tokens=512",
                                until="Ctrl-C here")
        self.assertEqual(self.status, 130, words)
        with open(self.calls, encoding="utf-8") as stream:
            calls = stream.read()
        self.assertRegex(calls, r"baton-decode .*--chunk_tokens=512 sees=1,0 share=\n")
        self.assertRegex(calls, r"baton-prefill .*--chunk_tokens=512 sees=0,1 share=\n")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
