package boltstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// longHistory is a store of a schema with events of many a transaction of its upgrade.
func longHistory(t *testing.T, schema string, many int) Options {
	t.Helper()
	o := made(t, "")
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		for i := range many {
			e := pay.SpendEvent{ID: fmt.Sprintf("%08d", i), KeyID: "k", Host: "api.example.com", Task: "crawl", Created: noon}
			row, err := encodeRow(e)
			if err != nil {
				return err
			}
			if err := tx.Bucket(eventsBucket).Put(join("k", e.ID), row); err != nil {
				return err
			}
		}
		return errors.Join(recreate(tx, spendDaysBucket, hostEventsBucket, taskEventsBucket), tx.Bucket(metaBucket).Put(schemaKey, []byte(schema)))
	})
	return o
}

// upgradeLine is one line of the log.
type upgradeLine struct {
	Text   string `json:"msg"`
	Schema any    `json:"schema"`
	Done   int    `json:"done"`
	Of     int    `json:"of"`
}

func linesOf(t *testing.T, log *bytes.Buffer) (list []upgradeLine) {
	t.Helper()
	for d := json.NewDecoder(log); d.More(); {
		var l upgradeLine
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	return list
}

// A start that upgrades a long history says that it does, how far it is, and when it is over.
func TestUpgradeTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	const many = 3*migratedRows + 5
	o := longHistory(t, "4", many)
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	var reads atomic.Int64
	o.Clock = func() time.Time { return noon.Add(time.Duration(reads.Add(1)) * 2 * time.Second) }
	if err := openIn(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	lines := linesOf(t, &log)
	if len(lines) != 3 {
		t.Fatalf("lines: %+v", lines)
	}
	if l := lines[0]; l.Text[:16] != "store: upgrading" || l.Schema != 4.0 {
		t.Errorf("at the beginning: %+v", l)
	}
	// The clock makes 2 s of each of the three transactions that are not the last.
	if l := lines[1]; l.Text != "store: still upgrading" || l.Done != 2*migratedRows || l.Of != many {
		t.Errorf("in the middle: %+v", l)
	}
	if l := lines[2]; l.Text != "store: upgraded" || l.Schema != float64(len(migrations)) {
		t.Errorf("at the end: %+v", l)
	}
	// Neither a new store nor one that is up to date has anything to tell.
	if err := openIn(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	fresh := inFolder(t.TempDir())
	fresh.Logger = o.Logger
	openIn(t, fresh)
	if log.Len() > 0 {
		t.Errorf("told although there was nothing to upgrade: %s", log.String())
	}
}

// A start that is given up in the middle of an upgrade ends it; the next one begins it anew.
func TestUpgradeGivenUp(t *testing.T) {
	t.Parallel()
	const many = 2*scanRows + 5
	o := longHistory(t, "1", many)
	ctx, giveUp := context.WithCancel(t.Context())
	clock := o.Clock
	var reads atomic.Int64
	o.Clock = func() time.Time {
		if reads.Add(1) == 2 { // the first transaction is written
			giveUp()
		}
		return noon
	}
	if _, err := Open(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("opened although it was given up: %v", err)
	}
	if n := schemaNumber(t, o.Path); n != "1" {
		t.Fatalf("schema %s in the middle", n)
	}
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		if n := tx.Bucket(taskEventsBucket).Stats().KeyN; n == 0 || n >= many {
			t.Errorf("%d of %d events when it was given up", n, many)
		}
		return nil
	})
	o.Clock = clock
	d := openIn(t, o)
	list, err := d.SpendEvents(t.Context(), "k", pay.SpendQuery{Task: "crawl", Limit: many + 1})
	if err != nil || len(list) != many {
		t.Errorf("%d events, %v", len(list), err)
	}
	s, err := d.SpendSummary(t.Context(), []string{"k"}, noon, noon)
	if err != nil || s.Total().Count != many {
		t.Errorf("%+v, %v", s.Total(), err)
	}
}
