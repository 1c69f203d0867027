package kills

import (
	"flag"
	"os"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

var (
	runs   = flag.Int("kills.runs", 12, "how many pursers are killed at random")
	seed   = flag.Uint64("kills.seed", 0, "what chance begins with; 0 is another one each time")
	atOnce = flag.Int("kills.parallel", 24, "how many pursers run at once")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(process.Main(m, *atOnce))
}
