package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/boltstore/boltfill"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

const (
	// shortHistory is the number of events that a long history is compared with.
	shortHistory = 1000
	// keepFree is the part of the disk that stays free while filling, in bytes.
	keepFree = 2 << 30
	// historyClients is the number of clients that pay while a history exists.
	historyClients = 8
	historyKey     = "pk_bench_history"
	page           = 100
)

// runHistory lists and pays with two keys: one with a short history and one with a long one. The
// payments of both are settled and retired. The two take turns.
func runHistory(ctx context.Context, b *bench) error {
	var servers []*purser
	defer func() {
		for _, p := range servers {
			p.stop()
		}
	}()
	sizes := []int{shortHistory, b.events}
	for _, events := range sizes {
		p, err := b.startWithHistory(ctx, events)
		if err != nil {
			return fmt.Errorf("%d events: %w", events, err)
		}
		servers = append(servers, p)
	}
	listings, payments := make([][]measurement, len(sizes)), make([][]measurement, len(sizes))
	for range 3 {
		for i, p := range servers {
			m, err := b.driveListing(ctx, p)
			if err != nil {
				return err
			}
			listings[i] = append(listings[i], m)
			m, err = b.drivePaid(ctx, b.through(p, []string{historyKey}), "/paid", load{clients: historyClients})
			if err != nil {
				return err
			}
			payments[i] = append(payments[i], m)
		}
	}
	for i, events := range sizes {
		b.report.add("history", withEvents(purserSpend, events), median(listings[i]))
		b.report.add("history", withEvents(purserProxy, events), median(payments[i]))
	}
	return nil
}

// driveListing measures the newest page of a key's spend events.
func (b *bench) driveListing(ctx context.Context, p *purser) (measurement, error) {
	m, err := b.drive(ctx, load{clients: 1}, p.child, func(ctx context.Context, _ int, _ uint64, _ bool) error {
		_, got, err := ask(ctx, p.api, http.MethodGet, p.url+"/v1/spend?limit="+strconv.Itoa(page), "", http.StatusOK, "X-Api-Key", historyKey)
		if err != nil {
			return err
		}
		return wantPage(got)
	})
	if err == nil {
		m.OwnMiB, m.MiB = memory(p.pid())
	}
	return m, err
}

func withEvents(what string, events int) string { return fmt.Sprintf("%s, %d events", what, events) }

func wantPage(got []byte) error {
	var list struct{ Events []json.RawMessage }
	if err := json.Unmarshal(got, &list); err != nil {
		return err
	}
	if len(list.Events) != page {
		return fmt.Errorf("%d events listed, not %d", len(list.Events), page)
	}
	return nil
}

// startWithHistory fills a store and starts purser on it. It reports the file's size and the time of
// the start.
func (b *bench) startWithHistory(ctx context.Context, events int) (*purser, error) {
	began := time.Now()
	made, err := b.newStore(ctx, "history-"+strconv.Itoa(events), func(ctx context.Context, db *boltstore.DB, key pay.Key) error {
		return boltfill.Fill(ctx, db, boltfill.Options{Keys: []string{key.ID}, Payments: events, Progress: func(done int) {
			if done%1_000_000 == 0 {
				b.say("%d of %d payments written after %s", done, events, time.Since(began).Round(time.Second))
			}
		}})
	})
	if err != nil {
		return nil, fmt.Errorf("fill the store: %w", err)
	}
	p, took, err := b.startOn(ctx, made)
	if err != nil {
		return nil, err
	}
	if events != shortHistory {
		b.report.Start.HistoryMS, b.report.Start.Events = took, events
		b.report.File.RetiredKB, b.report.File.HistoryGB = made.size/1000/float64(events), made.size/1e9
	}
	return p, nil
}

// store is a filled data folder.
type store struct {
	dir    string
	master vault.MasterKey
	size   float64 // of its files, in bytes
}

// newStore makes a data folder with a key of an organization, and lets fill write its payments.
func (b *bench) newStore(ctx context.Context, name string, fill func(context.Context, *boltstore.DB, pay.Key) error) (s store, err error) {
	s.dir = filepath.Join(b.dir, name)
	rand.Read(s.master[:]) // cannot fail
	data := filepath.Join(s.dir, "data")
	db, err := boltstore.Open(ctx, boltstore.Options{
		Path: filepath.Join(data, "purser.db"), MasterKey: vault.Given(s.master), MinFree: keepFree,
	})
	if err != nil {
		return s, err
	}
	key, err := db.CreateKey(ctx, pay.NewKey{
		Key:    pay.Key{ID: newID(), Label: "history", OrganizationID: "bench-history", Created: time.Now().UTC()},
		Secret: historyKey, Plan: pay.PlanAgency,
	})
	if err == nil {
		err = fill(ctx, db, key)
	}
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err == nil {
		s.size, err = folderSize(data)
	}
	return s, err
}

// startOn starts purser on a filled store, and returns the milliseconds until it answered.
func (b *bench) startOn(ctx context.Context, s store) (*purser, float64, error) {
	began := time.Now()
	p, err := b.startPurser(ctx, s.dir, "PURSER_MASTER_KEY="+hex.EncodeToString(s.master[:]))
	if err != nil {
		return nil, 0, err
	}
	took := milliseconds(time.Since(began))
	if err := p.newWallet(ctx, historyKey); err != nil {
		p.stop()
		return nil, 0, err
	}
	return p, took, nil
}

// folderSize returns the bytes of the files in a folder.
func folderSize(dir string) (float64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		sum += float64(info.Size())
	}
	return sum, nil
}
