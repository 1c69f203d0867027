package caddymodule

// No Caddy here: it registers the collectors of internal/metrics with the registry of a configuration.

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purserpay/purser/internal/metrics"
)

// registerMetrics registers the process's collectors and the gauges of one configuration.
func registerMetrics(registry *prometheus.Registry, gauges gauges) error {
	metrics.Process.FillNetworks(gauges.app.settings.networks)
	metrics.Process.Build.WithLabelValues(Version(), runtime.Version()).Set(1)
	for _, c := range append(metrics.Process.All(), gauges) {
		var again prometheus.AlreadyRegisteredError
		if err := registry.Register(c); err != nil && !errors.As(err, &again) {
			return fmt.Errorf("purser: registering metrics: %w", err)
		}
	}
	return nil
}
