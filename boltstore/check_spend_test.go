package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Whatever the daily sums and the indexes of spend events say wrongly is seen, and named.
func TestCheckSeesWrongSums(t *testing.T) {
	t.Parallel()
	path, text := small(t)
	// edit rewrites the first row of a day as it is not meant to be.
	edit := func(change func(*codec.Day)) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			k, v := tx.Bucket(spendDaysBucket).Cursor().First()
			row, err := codec.DecodeDay(v)
			if err != nil {
				return err
			}
			change(&row)
			return tx.Bucket(spendDaysBucket).Put(bytes.Clone(k), row.Encode())
		}
	}
	put := func(bucket, key, value []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put(key, value) }
	}
	remove := func(bucket []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(bucket).Cursor().First()
			return tx.Bucket(bucket).Delete(k)
		}
	}
	one := money.New(1)
	for _, c := range []damage{
		{"day lost", remove(spendDaysBucket), "spend of key k0 on 2026-11-15 is not summed up"},
		{"day of nothing", put(spendDaysBucket, dayKey("k0", noon.AddDate(0, 0, 1)), (&codec.Day{}).Encode()), "no spend event is of that key and day"},
		{"day of no event", put(spendDaysBucket, dayKey("k9", noon), (&codec.Day{}).Encode()), "no spend event is of that key and day"},
		{"key of no day", put(spendDaysBucket, []byte("k0"), (&codec.Day{}).Encode()), "no spend event is of that key and day"},
		{"unreadable", put(spendDaysBucket, dayKey("k0", noon), []byte{codec.DayVersion, 1, 1}), "damaged"},
		{"unknown encoding", put(spendDaysBucket, dayKey("k0", noon), []byte{99}), "unknown encoding"},
		{"count", edit(func(r *codec.Day) { r.Total.Count++ }), "is summed up as 4 payments, 15, 5 taken back, its events make 3 payments, 15, 5 taken back"},
		{"amount", edit(func(r *codec.Day) { r.Total.Amount = one }), "is summed up as 3 payments, 1,"},
		{"taken back", edit(func(r *codec.Day) { r.Total.Corrected = one }), "1 taken back, its events make"},
		{"host's amount", edit(func(r *codec.Day) { r.Hosts[0].Amount = one }), `by host is summed up for "api.example.com" as 3 payments, 1, 5 taken back`},
		{"host lost", edit(func(r *codec.Day) { r.Hosts = nil }), `by host is not summed up for "…"`},
		{"host among the rest", edit(func(r *codec.Day) { r.Hosts[0].Name = pay.RestName }), "no sum of its own for all, although there is room"},
		{"another host", edit(func(r *codec.Day) { r.Hosts = append(r.Hosts, pay.NameSum{Name: "x.example"}) }), `summed up for "x.example" as 0 payments`},
		{"host of nothing", edit(func(r *codec.Day) {
			r.Hosts = append(r.Hosts, pay.NameSum{Name: "x.example", Sum: pay.Sum{Count: 1}})
		}), `summed up for "x.example" as 1 payments, 0, 0 taken back, the events make 0 payments`},
		{"host twice", edit(func(r *codec.Day) { r.Hosts = append(r.Hosts, r.Hosts[0]) }), `has "api.example.com" twice`},
		{"task's count", edit(func(r *codec.Day) { r.Tasks[0].Count = 9 }), `by task is summed up for "crawl" as 9 payments`},
		{"too many names", edit(func(r *codec.Day) {
			for i := range codec.MaxDayNames {
				r.Tasks = append(r.Tasks, pay.NameSum{Name: fmt.Sprint(i)})
			}
		}), "has 33 names of 32"},
		{"wallet's day lost", remove(walletDaysBucket), "on 2026-11-15 is not summed up"},
		{"wallet's day of no event", put(walletDaysBucket, dayKey("w9", noon), codec.EncodeWalletDay(pay.WalletDay{})), "no spend event is of that wallet and day"},
		{"wallet's day unreadable", put(walletDaysBucket, dayKey("w9", noon), []byte{codec.WalletDayVersion, 1}), "damaged"},
		{"wallet's day unknown", put(walletDaysBucket, dayKey("w9", noon), []byte{99}), "unknown encoding"},
		{"wallet's amount", func(tx *bbolt.Tx) error {
			k, v := tx.Bucket(walletDaysBucket).Cursor().First()
			day, err := codec.DecodeWalletDay(v)
			day.Withdrawn.Amount = one
			return errors.Join(err, tx.Bucket(walletDaysBucket).Put(bytes.Clone(k), codec.EncodeWalletDay(day)))
		}, "and withdrawn 0 payments, 1, 0 taken back; its events make 3 payments, 15, 5 taken back, and withdrawn 0 payments, 0,"},
		{"event not found by its host", remove(hostEventsBucket), "is not found by its host"},
		{"event of no host", put(hostEventsBucket, joinKey("k0", hashed("x"), "e"), nil), "spend_by_host has an entry"},
		{"entry that is none", put(hostEventsBucket, []byte("k0\x00x"), nil), "spend_by_host has an entry"},
		{"task of no event", put(taskEventsBucket, []byte("k0\x00x"), nil), "spend_by_task has an entry"},
	} {
		c.seen(t, path, text)
	}
}

// Money is booked although the sums of its day are damaged, and the damage stays to be seen.
func TestDamagedSumsDoNotStopPayments(t *testing.T) {
	t.Parallel()
	o := filled(t)
	damaged := []byte{codec.DayVersion, 1, 1}
	inside(t, o.Path, func(tx *bbolt.Tx) error { return tx.Bucket(spendDaysBucket).Put(dayKey("k0", noon), damaged) })
	var wallet string
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(walletDaysBucket).Cursor().First()
		wallet, _, _ = strings.Cut(string(k), "\x00")
		return tx.Bucket(walletDaysBucket).Put(bytes.Clone(k), damaged)
	})
	d := openIn(t, o)
	p := begun(t, d, "k0")
	if p, _, err := d.Record(t.Context(), settlement(p)); err != nil || p.State != pay.Settled {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := d.SpendSummary(t.Context(), []string{"k0"}, noon, noon); err == nil || !strings.Contains(err.Error(), "2026-11-15") {
		t.Errorf("error %v", err)
	}
	err := d.VisitWalletDays(t.Context(), []string{wallet}, noon, noon, func(string, pay.WalletDay) { t.Error("a damaged day") })
	if err == nil || !strings.Contains(err.Error(), wallet+" on 2026-11-15") {
		t.Errorf("error %v", err)
	}
	if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error %v", err)
	}
}

// Sums of any bytes are refused or read, and what is read is written alike.
func FuzzDaySums(f *testing.F) {
	var full codec.Day
	for i := range 2 * codec.MaxDayNames {
		full.Add(&pay.SpendEvent{Host: fmt.Sprint(i), Task: fmt.Sprint(i), Amount: money.New(1 << i % 63)})
	}
	f.Add(full.Encode())
	f.Add((&codec.Day{}).Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		row, err := codec.DecodeDay(encoded)
		if err != nil {
			return
		}
		again, err := codec.DecodeDay(row.Encode())
		if err != nil || again.Total != row.Total || !slices.Equal(again.Hosts, row.Hosts) || !slices.Equal(again.Tasks, row.Tasks) {
			t.Fatalf("%+v is read again as %+v, %v", row, again, err)
		}
	})
}
