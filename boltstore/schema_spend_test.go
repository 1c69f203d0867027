package boltstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// contents are the entries of buckets.
func contents(t *testing.T, path string, buckets ...[]byte) map[string]string {
	t.Helper()
	all := map[string]string{}
	inside(t, path, func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			err := tx.Bucket(name).ForEach(func(k, v []byte) error {
				all[string(name)+"/"+string(k)] = string(v)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return all
}

// The spend of 150 payments, some of which were taken back on another day, and of one that
// only the chain told of; on one day at 50 hosts.
func TestUpgradeFromSchema4(t *testing.T) {
	t.Parallel()
	o := unpacked(t, "schema4")
	if n := schemaNumber(t, o.Path); n != "4" {
		t.Fatalf("testdata is of schema %s", n)
	}
	for range 2 {
		d := openIn(t, o)
		checked(t, d)
		keys := []string{"key-0", "key-1", "key-2"}
		from, to := noon, noon.AddDate(0, 0, 30)
		s, err := d.SpendSummary(t.Context(), keys, from, to)
		if err != nil {
			t.Fatal(err)
		}
		page, err := d.ListSpend(t.Context(), keys, pay.OrganizationSpendQuery{Limit: 500})
		if err != nil || len(page.Entries) != 159 || page.Next != "" {
			t.Fatalf("%d events, %v", len(page.Entries), err)
		}
		var total, day, host pay.Sum
		for _, e := range page.Entries {
			total.Event(&e.SpendEvent)
			if pay.DayOf(e.Created).Equal(pay.DayOf(noon.AddDate(0, 0, 20))) {
				day.Event(&e.SpendEvent)
			}
			if e.Host == "b.example:8443" {
				host.Event(&e.SpendEvent)
			}
		}
		if s.Total() != total || total.Corrected.IsZero() || total.Count != 147 {
			t.Errorf("%+v, the events make %+v", s.Total(), total)
		}
		if s.Days[20].Sum != day || day.Count != 50 {
			t.Errorf("%+v, the events make %+v", s.Days[20].Sum, day)
		}
		if i := indexOfName(s.Hosts, "b.example:8443"); i < 0 || s.Hosts[i].Sum != host {
			t.Errorf("%+v, the events make %+v", s.Hosts, host)
		}
		found, err := d.ListSpend(t.Context(), keys, pay.OrganizationSpendQuery{Host: "host-49.example", Limit: 9})
		if err != nil || len(found.Entries) != 1 || found.Entries[0].Task != "task-49" {
			t.Errorf("%+v, %v", found, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if n := schemaNumber(t, o.Path); n != fmt.Sprint(len(migrations)) {
			t.Fatalf("schema %s after the upgrade", n)
		}
	}
}

// An upgrade to schema 5 that was cut off begins anew, also when the older purser went on in
// between.
func TestSumsOfAnUpgradeThatWasCutOff(t *testing.T) {
	t.Parallel()
	whole, cut := unpacked(t, "schema4"), unpacked(t, "schema4")
	if err := openIn(t, whole).Close(); err != nil {
		t.Fatal(err)
	}
	inside(t, cut.Path, func(tx *bbolt.Tx) error {
		if err := recreate(tx, spendDaysBucket, hostEventsBucket); err != nil {
			return err
		}
		if _, err := sumUpFrom(tx, nil); err != nil {
			return err
		}
		e := pay.SpendEvent{ID: "stale", KeyID: "key-0", Host: "stale.example", Created: noon}
		b := newBatch(tx, nil)
		return errors.Join(b.rollUp(&e), b.put(hostEventsBucket, hostEventKey(&e), nil))
	})
	d := openIn(t, cut)
	checked(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	want := contents(t, whole.Path, spendDaysBucket, hostEventsBucket)
	if got := contents(t, cut.Path, spendDaysBucket, hostEventsBucket); len(want) < 100 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
}

// What is summed up in several transactions is what is summed up in one; here days and keys
// go on behind each end.
func TestSumsOfALongHistory(t *testing.T) {
	t.Parallel()
	o := made(t, "")
	const many = 2*migratedRows + 3
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		for i := range many {
			e := pay.SpendEvent{
				ID: fmt.Sprintf("%08d", i), KeyID: fmt.Sprint("key-", 7*i/many), Host: fmt.Sprint("host-", i%40), Task: "crawl",
				Created: noon.Add(time.Duration(i) * time.Minute),
			}
			row, err := encodeRow(e)
			if err != nil {
				return err
			}
			if err := tx.Bucket(eventsBucket).Put(join(e.KeyID, e.ID), row); err != nil {
				return err
			}
		}
		for _, name := range [][]byte{spendDaysBucket, hostEventsBucket} {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(schemaKey, []byte("4"))
	})
	d := openIn(t, o)
	var total pay.Sum
	for i := range 7 {
		s, err := d.SpendSummary(t.Context(), []string{fmt.Sprint("key-", i)}, noon, noon.AddDate(0, 0, 30))
		if err != nil {
			t.Fatal(err)
		}
		total.Add(s.Total())
	}
	if total.Count != many {
		t.Errorf("%d events are summed up, not %d", total.Count, many)
	}
	n := 0
	for i := range 40 {
		q := pay.OrganizationSpendQuery{Host: fmt.Sprint("host-", i), Limit: many}
		err := d.view(t.Context(), func(tx *bbolt.Tx) error {
			for k := range 7 {
				descend(tx.Bucket(hostEventsBucket), within(fmt.Sprint("key-", k), hashed(q.Host)), "", func(_, _ []byte) bool { n++; return true })
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n != many {
		t.Errorf("%d events are found by their hosts, not %d", n, many)
	}
}
