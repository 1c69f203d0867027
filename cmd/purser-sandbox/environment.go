package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/purserpay/purser/caddymodule"
	"github.com/purserpay/purser/internal/environment"
)

// heeded lists the variables that change purser's behaviour, but not the place of its money, keys
// or data.
var heeded = []string{
	"PURSER_MAX_PAYMENT", "PURSER_DAILY_BUDGET", "PURSER_SETTLEMENT", "PURSER_INTERNAL_SECRET", "PURSER_INTERNAL_SECRET_FILE",
	"PURSER_UPGRADE_URL", "PURSER_PUBLIC_URL", "PURSER_ALLOWED_ORIGINS",
}

// keepEnvironment unsets all other purser variables and logs their names. A sandbox must not take
// over a real key, database or facilitator.
func keepEnvironment(log io.Writer) {
	caddymodule.AsPurser()
	environment.UnsetEmpty()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "PURSER_") || slices.Contains(heeded, name) {
			continue
		}
		fmt.Fprintf(log, "purser-sandbox: %s is ignored\n", name)
		_ = os.Unsetenv(name)
	}
}
