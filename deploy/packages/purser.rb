# Made by deploy/dist.sh, which fills in version, addresses and sums.
class Purser < Formula
  desc "Pays HTTP 402s for agents"
  homepage "https://github.com/purserpay/purser"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL@/purser_darwin_arm64.tar.gz"
      sha256 "@purser_darwin_arm64.tar.gz@"
    end
    on_intel do
      url "@URL@/purser_darwin_amd64.tar.gz"
      sha256 "@purser_darwin_amd64.tar.gz@"
    end
  end

  on_linux do
    on_arm do
      url "@URL@/purser_linux_arm64.tar.gz"
      sha256 "@purser_linux_arm64.tar.gz@"
    end
    on_intel do
      url "@URL@/purser_linux_amd64.tar.gz"
      sha256 "@purser_linux_amd64.tar.gz@"
    end
  end

  def install
    bin.install "purser", "purser-sandbox"
    prefix.install "NOTICES"
    bash_completion.install "completions/purser.bash" => "purser"
    zsh_completion.install "completions/_purser"
    fish_completion.install "completions/purser.fish"
    man8.install Dir["man/*.8"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/purser version")
  end
end
