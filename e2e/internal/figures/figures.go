// Package figures has what is said of measurements, and the figures that are measured by hand. Package bench draws them.
package figures

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Busy is the load average per core above which other programs disturb a measurement.
const Busy = 0.75

// LoadAverage returns the load average of the last minute, or zero when the system does not tell.
func LoadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// Commit returns the commit under test, with a + when the tree has changes.
func Commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	if changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output(); err != nil || len(changes) > 0 {
		name += "+"
	}
	return name
}
