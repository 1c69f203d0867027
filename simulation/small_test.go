package simulation

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

var few = flag.Int("simulation.small", 40, "how many seeds run with small batches, pages, journals and short leases")

// small has purser do in many steps what it does in one: other orders and other halves are left at a death.
func small() []change {
	return []change{
		{"pay/recovery.go", "recoverBatch = 200", "recoverBatch = 2"},
		{"pay/recovery.go", "openPage = 500", "openPage = 2"},
		{"pay/reconcile_run.go", "reconcileChunk = 2000", "reconcileChunk = 7"},
		{"pay/reconcile_run.go", "reconcileFound = 200", "reconcileFound = 1"},
		{"pay/retention.go", "retainBatch = 50", "retainBatch = 1"},
		{"pay/proving.go", "provingPage   = 200", "provingPage = 2"},
		{"pay/proving.go", "maxProved     = 32", "maxProved = 1"},
		{"pay/payment.go", "LeaseTime    = 30 * time.Second", "LeaseTime = 3 * time.Second"},
		{"pay/payment.go", "LeaseRenewal = 10 * time.Second", "LeaseRenewal = time.Second"},
		{"boltstore/journal_file.go", "journalRoom int64 = 16 << 20", "journalRoom int64 = 16 << 10"},
	}
}

// TestSmall runs seeds with a purser whose sizes and times are small. No rule may break.
func TestSmall(t *testing.T) {
	play := exec.CommandContext(t.Context(), build(t, small()...), "-test.run=TestSeeds", "-test.timeout=10m", "-simulation.quiet", //nolint:gosec // built here
		fmt.Sprint("-simulation.seed=", *first), fmt.Sprint("-simulation.seeds=", *few), fmt.Sprint("-simulation.workers=", *workers))
	var failed bytes.Buffer
	play.Stdout, play.Stderr = os.Stdout, &failed
	if err := play.Run(); err != nil {
		t.Errorf("%v\n%s", err, failed.String())
	}
}
