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
func (a *App) registerMetrics(registry *prometheus.Registry) error {
	metrics.Process.FillNetworks(a.settings.networks)
	metrics.Process.Build.WithLabelValues(Version(), runtime.Version()).Set(1)
	for _, c := range append(metrics.Process.All(), metrics.Gauges{Now: a.watched, Log: a.log}) {
		var again prometheus.AlreadyRegisteredError
		if err := registry.Register(c); err != nil && !errors.As(err, &again) {
			return fmt.Errorf("purser: registering metrics: %w", err)
		}
	}
	return nil
}

// watched returns what gauges read; nil before the app has started.
func (a *App) watched() *metrics.Watched {
	run := a.live.Load()
	switch {
	case run != nil:
	case a.outage.Load() != nil:
		return new(metrics.Watched)
	default:
		return nil
	}
	t := run.tenant
	return &metrics.Watched{
		Store: run.home.store, Payer: t.payer, Chain: t.chain, Facilitator: t.facilitator, SecondRPC: t.app.settings.secondRPCs(), Readings: t.readings,
	}
}
