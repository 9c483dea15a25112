# For a tap. scripts/formula.sh writes version and sums of a release.
class Wrkbench < Formula
  desc "HTTP load generator, a drop-in for wrk and wrk2"
  homepage "https://github.com/wrkbench/wrkbench"
  version "0.1.0"
  license any_of: ["Apache-2.0", "MIT"]
  head "https://github.com/wrkbench/wrkbench.git", branch: "main"

  on_linux do
    on_intel do
      url "https://github.com/wrkbench/wrkbench/releases/download/v0.1.0/wrkbench-0.1.0-x86_64-linux-musl.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000"
    end
    on_arm do
      url "https://github.com/wrkbench/wrkbench/releases/download/v0.1.0/wrkbench-0.1.0-aarch64-linux-musl.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000"
    end
  end

  # Sampling, io_uring and /proc are Linux.
  depends_on :linux

  head do
    depends_on "rust" => :build
  end

  def install
    if build.head?
      system "make", "CARGO=cargo"
      system "make", "install", "PREFIX=#{prefix}"
    else
      prefix.install "bin", "share"
    end
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/wrkbench --version") unless build.head?
    server = IO.popen([bin/"wrkbench", "serve", "--listen", "127.0.0.1:0"])
    # It prints "serving URL".
    url = server.gets.split.last
    assert_match "100 requests in", shell_output("#{bin}/wrkbench -t1 -c2 -n100 #{url}")
  ensure
    Process.kill "TERM", server.pid if server
  end
end
