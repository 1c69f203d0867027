package metrics

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/pay"
)

// scrapeTime bounds what a scrape asks of the store. It asks nothing that takes longer with
// more payments, and no other service: see [Readings].
const scrapeTime = 2 * time.Second

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("purser_"+name, help, labels, nil)
}

var (
	paymentsDesc   = desc("payments", "Payments whose outcome is not known, or known to be wrong, by label.", "label")
	oldestOpenDesc = desc("oldest_open_payment_timestamp_seconds",
		"When the oldest payment was begun that is open, and neither refused nor unresolved; missing while there is none.")

	facilitatorUpDesc = desc("facilitator_up",
		"0 while the facilitator does not answer, or has failed too often and gets no new payments; missing without one.")
	rpcUpDesc       = desc("rpc_up", "0 while the RPC does not answer, or is on another chain; missing without one.")
	secondRPCDesc   = desc("second_rpc_up", "0 while the second RPC does not answer, or is on another chain, so that no payment is void; missing without one.")
	clockDesc       = desc("clock_ahead_seconds", "How far our clock is ahead of a source's Date; missing while the source has not answered for two minutes.", "source")
	blockDesc       = desc("rpc_block_ahead_seconds", "How far our clock is ahead of an RPC's latest block; missing while it was not asked for two minutes.", "source")
	stoppedDesc     = desc("clock_stopped", "1 while no new payment is made, because our clock and a source's are two minutes apart.")
	reconcilingDesc = desc("reconciling",
		"1 while payments are refused because the store was restored from a backup, or has lost commits, and is not reconciled with the chain.")

	pausedDesc = desc("paused", "1 while the operator has paused all new payments (purser pause).")

	storeUpDesc     = desc("store_up", "1 if the store can take new payments.")
	storeQueuedDesc = desc("store_queued_operations", "Operations that wait for the store's next commit.")
	storeKeptDesc   = desc("store_kept_changes", "Changes of payments that are only in memory because the store cannot write.")
	storeFileDesc   = desc("store_file_bytes", "Size of the database file.")
	journalDesc     = desc("store_journal_bytes", "What only the journal file has; the next checkpoint writes it to the database file.")
	flushDesc       = desc("store_flush_duration_seconds", "How long flushes of the journal took; each makes the operations of one batch durable.")
	checkpointDesc  = desc("store_checkpoint_duration_seconds", "How long checkpoints took; payments wait meanwhile.")
	removedDesc     = desc("payments_removed_total", "Payments that were removed because they were older than PURSER_RETAIN.")
	diskFreeDesc    = desc("store_disk_free_bytes", "Free disk space where the database is.")
	diskMinDesc     = desc("store_disk_min_bytes", "Free disk space below which no payment is begun.")
	backupDesc      = desc("last_backup_timestamp_seconds", "When this process handed out a backup last; missing if it has not.")

	quotaUsedDesc   = desc("quota_used_ratio", "Payments of this month as a part of what the plan allows, of the owner for whom that is most.")
	quotaOwnersDesc = desc("quota_owners",
		"Organizations and unclaimed keys by their payments of this month: near (80 % or more of what the plan allows), exhausted, or counted (all that were looked at).",
		"state")
	walletsDesc = desc("wallets_in_use",
		"Wallets whose balances are read: those of the deployment's key, and of keys that spent in the last 30 days, at most 100.", "network")
	balanceDesc = desc("wallets_balance", "What these wallets hold together, in the smallest unit of the currency.", "network", "currency")
	lowestDesc  = desc("wallets_lowest_balance", "What the poorest of these wallets holds, in the smallest unit of the currency.", "network", "currency")
)

// gaugeDescs, counterDescs and summaryDescs are all that gauges may collect.
var gaugeDescs = []*prometheus.Desc{
	paymentsDesc, oldestOpenDesc, facilitatorUpDesc, rpcUpDesc, reconcilingDesc,
	secondRPCDesc, clockDesc, blockDesc, stoppedDesc, pausedDesc,
	storeUpDesc, storeQueuedDesc, storeKeptDesc, storeFileDesc, journalDesc, diskFreeDesc, diskMinDesc, backupDesc,
	quotaUsedDesc, quotaOwnersDesc, walletsDesc, balanceDesc, lowestDesc,
}

var (
	counterDescs = []*prometheus.Desc{removedDesc}
	summaryDescs = []*prometheus.Desc{flushDesc, checkpointDesc}
)

// lastBackup is when this process handed out a backup, in Unix seconds; 0: never.
var lastBackup atomic.Int64

// BackupTaken notes that this process has handed out a backup.
func BackupTaken(at time.Time) { lastBackup.Store(at.Unix()) }

// Watched holds what the gauges of one configuration read.
type Watched struct {
	// Store is nil while it cannot be opened. Then nothing else is known either.
	Store interface {
		pay.StoreReader
		Health(ctx context.Context) error
	}
	Payer       *pay.Payer
	Chain       pay.Chain       // nil without an RPC
	Facilitator pay.Facilitator // nil without one
	SecondRPC   bool            // a network has two RPCs that must agree
	Readings    *Readings
}

// Gauges are read when they are scraped.
type Gauges struct {
	// Now returns what is read; nil: not started, nothing is known.
	Now func() *Watched
	Log *slog.Logger
}

// Described returns all that gauges may collect, by kind.
func Described() map[string][]*prometheus.Desc {
	return map[string][]*prometheus.Desc{"gauge": gaugeDescs, "counter": counterDescs, "summary": summaryDescs}
}

// Describe implements [prometheus.Collector].
func (Gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(gaugeDescs, counterDescs, summaryDescs) {
		to <- d
	}
}

// scraped collects one scrape.
type scraped chan<- prometheus.Metric

func (to scraped) gauge(d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (to scraped) counter(d *prometheus.Desc, value float64) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value)
}

// effort collects a summary without quantiles: number and sum.
func (to scraped) effort(d *prometheus.Desc, e boltstore.Effort) {
	to <- prometheus.MustNewConstSummary(d, e.Count, e.Time.Seconds(), nil)
}

func (to scraped) flag(d *prometheus.Desc, set bool) {
	value := 0.0
	if set {
		value = 1
	}
	to.gauge(d, value)
}

// Collect implements [prometheus.Collector].
func (g Gauges) Collect(into chan<- prometheus.Metric) {
	w := g.Now()
	if w == nil {
		return
	}
	if w.Store == nil {
		scraped(into).flag(storeUpDesc, false)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	to := scraped(into)
	g.store(ctx, to, w)
	r := w.Readings.Take()
	if f, ok := w.Facilitator.(interface{ Failing() error }); ok {
		// The health may come from the previous configuration, which had no facilitator.
		to.flag(facilitatorUpDesc, f.Failing() == nil && (r.Health == nil || !r.Health.Facilitator.Configured || r.Health.Facilitator.OK))
	} else if w.Facilitator != nil && r.Health != nil && r.Health.Facilitator.Configured {
		to.flag(facilitatorUpDesc, r.Health.Facilitator.OK)
	}
	if w.Chain != nil && r.Health != nil && r.Health.RPC.Configured {
		to.flag(rpcUpDesc, r.Health.RPC.OK)
	}
	if r.Health != nil && r.Health.SecondRPC.Configured && w.SecondRPC {
		to.flag(secondRPCDesc, r.Health.SecondRPC.OK)
	}
	to.clock(w.Payer.Clock())
	if at := lastBackup.Load(); at > 0 {
		to.gauge(backupDesc, float64(at))
	}
	if q := r.Quota; q != nil {
		to.gauge(quotaUsedDesc, q.Used)
		to.gauge(quotaOwnersDesc, float64(q.Near), "near")
		to.gauge(quotaOwnersDesc, float64(q.Exhausted), "exhausted")
		to.gauge(quotaOwnersDesc, float64(q.Counted), "counted")
	}
	if w.Chain == nil {
		return
	}
	for _, w := range r.Wallets {
		to.gauge(walletsDesc, float64(w.Count), w.Network)
		if w.Count > 0 {
			to.gauge(balanceDesc, Inexact(w.Total), w.Network, w.Currency)
			to.gauge(lowestDesc, Inexact(w.Lowest), w.Network, w.Currency)
		}
	}
}

// clock tells how our clock compares.
func (to scraped) clock(state pay.ClockState) {
	to.flag(stoppedDesc, state.Stopped)
	for _, s := range state.Sources {
		if s.Known {
			to.gauge(clockDesc, s.Ahead.Seconds(), string(s.Source))
		}
		if s.BlockKnown {
			to.gauge(blockDesc, s.BlockAhead.Seconds(), string(s.Source))
		}
	}
}

// store asks the store.
func (g Gauges) store(ctx context.Context, to scraped, w *Watched) {
	store := w.Store
	to.flag(storeUpDesc, store.Health(ctx) == nil)
	if r, err := store.Restored(ctx); err != nil {
		g.Log.Warn("not known whether there is something to reconcile", "error", err)
	} else {
		to.flag(reconcilingDesc, r != nil)
	}
	if p, err := store.Pause(ctx); err != nil {
		g.Log.Warn("not known whether everything is paused", "error", err)
	} else {
		to.flag(pausedDesc, p != nil)
	}
	for _, label := range []string{"open", "unresolved", "disputed"} {
		n, err := store.CountOpen(ctx, label)
		if err != nil {
			g.Log.Warn("payments not counted", "label", label, "error", err)
			continue
		}
		to.gauge(paymentsDesc, float64(n), label)
	}
	watched, ok := store.(interface {
		Stats(ctx context.Context) (boltstore.Stats, error)
	})
	if !ok {
		return
	}
	s, err := watched.Stats(ctx)
	to.gauge(storeQueuedDesc, float64(s.Queued))
	to.gauge(storeKeptDesc, float64(s.Kept))
	to.gauge(diskMinDesc, float64(s.MinFreeBytes))
	to.gauge(journalDesc, float64(s.JournalBytes))
	to.effort(flushDesc, s.Flushes)
	to.effort(checkpointDesc, s.Checkpoints)
	to.counter(removedDesc, float64(s.Removed))
	if s.FreeBytes != nil {
		to.gauge(diskFreeDesc, float64(*s.FreeBytes))
	}
	if err != nil {
		return // store_up says so
	}
	to.gauge(storeFileDesc, float64(s.FileBytes))
	if !s.OldestOpen.IsZero() {
		to.gauge(oldestOpenDesc, float64(s.OldestOpen.UnixMilli())/1000)
	}
}

// Disk returns the free bytes where the database of a store is, and the least with which payments begin. Both are nil where
// the store or the system does not tell.
func Disk(store any) func(ctx context.Context) (free, least *uint64) {
	return func(ctx context.Context) (free, least *uint64) {
		watched, ok := store.(interface {
			Stats(ctx context.Context) (boltstore.Stats, error)
		})
		if !ok {
			return nil, nil
		}
		s, _ := watched.Stats(ctx) // what is known comes with an error, too
		return s.FreeBytes, &s.MinFreeBytes
	}
}
