package nodes

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

var (
	duration = flag.Duration("nodes.for", 20*time.Second, "how long customers buy while nodes are killed")
	restarts = flag.Int("nodes.restarts", 1, "how often the database is killed meanwhile, and started again")
	seed     = flag.Uint64("nodes.seed", 0, "what chance begins with; 0 is another one each time")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(process.Main(m, 2))
}
