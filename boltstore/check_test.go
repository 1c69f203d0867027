package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// transaction is a hash of one.
func transaction(n int) string { return fmt.Sprintf("0x%064x", n) }

// fill writes a store with payments of every state, keys and wallets.
func fill(t testing.TB, d *DB) {
	t.Helper()
	for i, org := range []string{"", "org"} {
		k := pay.NewKey{Key: pay.Key{ID: fmt.Sprintf("k%d", i), OrganizationID: org}, Secret: fmt.Sprintf("pk_first-%d", i)}
		if _, err := d.CreateKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if _, err := d.ReissueKey(t.Context(), pay.Reissue{KeyID: k.ID, Secret: fmt.Sprintf("pk_secret-%d", i)}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.SetPolicy(t.Context(), k.ID, &policy.Policy{}); err != nil {
			t.Fatal(err)
		}
		for j, id := range []string{"live", "deleted"} {
			address := new(x402.EVMAddress([20]byte{byte(i), byte(j), 1}))
			w := pay.NewWallet{Wallet: pay.Wallet{ID: id + k.ID, KeyID: k.ID, Network: "base", Address: address}, Secret: []byte("wallet key")}
			if err := d.CreateWallet(t.Context(), w, 10); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.DeleteWallet(t.Context(), k.ID, "deleted"+k.ID, noon); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.ShareWallet(t.Context(), pay.Share{WalletID: "livek0", KeyIDs: []string{"k1"}, At: noon}); err != nil {
		t.Fatal(err)
	}
	if err := d.AddDeclines(t.Context(), []pay.Declined{{KeyID: "k0", Day: pay.DayOf(noon), Reason: "paused", Host: "api.example.com", Count: 2, First: noon, Last: noon}}); err != nil {
		t.Fatal(err)
	}
	for i, verdict := range []pay.Verdict{
		pay.Unclear, pay.VerdictSettled, pay.VerdictSettled, pay.VerdictVoid, pay.VerdictRefused, pay.VerdictUnresolved, pay.VerdictSettled,
	} {
		b := call("k0")
		b.New.Check = noon.Add(time.Hour)
		if i%2 == 0 {
			b.IdempotencyKey, b.New.IdempotencyKey = b.New.ID, b.New.ID
		}
		if b.New.Task = "crawl"; i == 2 {
			b.New.Price = "price/k0"
		}
		begun, err := d.Begin(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue // stays leased
		}
		o := settlement(begun.Payment)
		if o.Verdict = verdict; verdict == pay.VerdictSettled {
			o.Transaction = transaction(i)
		} else {
			o.Answered = false
		}
		if o.Release = i != 6; !o.Release {
			o.Answered = false
		}
		if _, _, err := d.Record(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if i == 6 {
			o.Verdict, o.EventID, o.Release = pay.VerdictDisputed, newID(), true
			if _, _, err := d.Record(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// filled is the file of a closed store with something of everything in it.
func filled(t testing.TB) Options {
	t.Helper()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	fill(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return o
}

// small is such a file without free space in it, of which an open store has much.
func small(t testing.TB) (path string, text []byte) {
	t.Helper()
	path = filled(t).Path
	if _, _, err := Compact(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, text
}

// names lists a folder.
func names(t testing.TB, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".journal") { // every store has one
			list = append(list, e.Name())
		}
	}
	return list
}

// sound demands that a file has no faults.
func sound(t testing.TB, path string) Report {
	t.Helper()
	r, err := CheckFile(context.Background(), path, vault.Given(testMaster))
	if err := errors.Join(err, r.Err()); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheckFile(t *testing.T) {
	t.Parallel()
	o := filled(t)
	before, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	r := sound(t, o.Path)
	if !r.Pages || !r.Secrets || r.Schema != schema || r.Payments != 7 || r.Events != 4 || r.Keys != 2 || r.Wallets != 4 ||
		r.Labels["settled"] != 3 || r.Labels["disputed"] != 1 || r.Labels["open"] != 3 || r.Size != int64(len(before)) || r.Backups != nil {
		t.Errorf("%+v", r)
	}
	if r, err := CheckFile(t.Context(), o.Path, nil); err != nil || r.Err() != nil || r.Secrets {
		t.Errorf("without a master key: %+v, %v", r, err)
	}
	if r, err := CheckFile(t.Context(), o.Path, vault.Given(vault.MasterKey{9})); err != nil || r.Err() == nil || r.Secrets {
		t.Errorf("with a wrong master key: %+v, %v", r, err)
	}
	if after, err := os.ReadFile(o.Path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the check has changed the file, %v", err)
	}
	if list := names(t, filepath.Dir(o.Path)); !slices.Equal(list, []string{"purser.db"}) {
		t.Errorf("the check has left %q", list)
	}
}

func TestCheckFileRefuses(t *testing.T) {
	t.Parallel()
	refuses := func(t *testing.T, path string, want error, text string) {
		t.Helper()
		r, err := CheckFile(t.Context(), path, nil)
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), path) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	dir := t.TempDir()
	refuses(t, filepath.Join(dir, "nothing.db"), fs.ErrNotExist, "")
	refuses(t, dir, errNoStore, "")
	for name, text := range map[string]string{"empty": "", "short": "x", "text": strings.Repeat("not a database\n", 4096)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(t, path, nil, "")
		if is, err := os.ReadFile(path); err != nil || string(is) != text {
			t.Errorf("%s was changed, %v", name, err)
		}
	}
	theirs := filepath.Join(dir, "theirs.db")
	inside(t, theirs, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err })
	refuses(t, theirs, errNoStore, "not a purser store")
	if len(names(t, dir)) != 4 {
		t.Errorf("the check has left %q", names(t, dir))
	}

	o := filled(t)
	inside(t, o.Path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(schemaKey, []byte("99")) })
	refuses(t, o.Path, ErrNewer, "schema is 99")
	inside(t, o.Path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(schemaKey, []byte("6")) })
	refuses(t, o.Path, ErrOlder, "schema is 6")

	open := inFolder(t.TempDir())
	openIn(t, open)
	refuses(t, open.Path, ErrLocked, "a running purser has it open")
	if used, err := InUse(open.Path); !used || err != nil {
		t.Errorf("an open store is not in use, %v", err)
	}
	for _, path := range []string{o.Path, theirs, filepath.Join(dir, "text"), filepath.Join(dir, "short"), filepath.Join(dir, "empty")} {
		if used, err := InUse(path); used || err != nil {
			t.Errorf("%s is in use: %t, %v", path, used, err)
		}
	}
}

// damage is done to a file, and what is said of it.
type damage struct {
	name string
	do   func(*bbolt.Tx) error
	text string
}

// seen fails the test unless the check of a file, which is damaged anew, names the damage.
func (c damage) seen(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	inside(t, path, c.do)
	r, err := CheckFile(t.Context(), path, vault.Given(testMaster))
	if err != nil || !slices.ContainsFunc(r.Faults, func(f string) bool { return strings.Contains(f, c.text) }) {
		t.Errorf("%s: %v, %q", c.name, err, r.Faults)
	}
}

// Every kind of damage in the rows is seen, and named.
func TestCheckSeesDamage(t *testing.T) {
	t.Parallel()
	path, text := small(t)
	remove := func(bucket []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(bucket).Cursor().First()
			if k == nil {
				return fmt.Errorf("%s is empty", bucket)
			}
			return tx.Bucket(bucket).Delete(k)
		}
	}
	put := func(bucket []byte, key, value string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte(key), []byte(value)) }
	}
	// edit rewrites the first payment with a label as it is not meant to be.
	edit := func(label string, change func(*pay.Payment)) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			rows := tx.Bucket(paymentsBucket)
			c := rows.Cursor()
			for k, _ := c.First(); k != nil; k, _ = c.Next() {
				p, err := paymentIn(tx, string(k))
				if err != nil || !slices.Contains(p.Labels(), label) {
					continue
				}
				change(p)
				row := codec.Encode(p)
				return rows.Put(k, row.Row)
			}
			return errors.New("no payment is " + label)
		}
	}
	editEvent := func(change func(*pay.SpendEvent)) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			k, v := tx.Bucket(eventsBucket).Cursor().First()
			e, err := decodeEvent(k, v)
			if err != nil {
				return err
			}
			change(&e)
			row := codec.EncodeEvent(&e)
			return tx.Bucket(eventsBucket).Put(k, row)
		}
	}
	cases := []damage{
		{"payment of an unknown encoding", put(paymentsBucket, newID(), "\xffx"), "unknown encoding"},
		{"payment lost", remove(paymentsBucket), "payment not found"},
		{"payment under another id", func(tx *bbolt.Tx) error {
			_, v := tx.Bucket(paymentsBucket).Cursor().First()
			return tx.Bucket(paymentsBucket).Put([]byte(newID()), bytes.Clone(v))
		}, "is stored as"},
		{"label bits", func(tx *bbolt.Tx) error {
			k, v := tx.Bucket(paymentsBucket).Cursor().First()
			row := bytes.Clone(v)
			row[1] ^= 1 << 6
			return tx.Bucket(paymentsBucket).Put(k, row)
		}, "label bits"},
		{"unknown state", edit("open", func(p *pay.Payment) { p.State = "paid" }), `unknown state paid`},
		{"open and closed", edit("open", func(p *pay.Payment) { p.Closed = noon }), "time of closing"},
		{"void and not closed", edit("void", func(p *pay.Payment) { p.Closed = time.Time{} }), "time of closing"},
		{"void with a spend event", edit("void", func(p *pay.Payment) { p.EventID = newID() }), "which its spend event contradicts"},
		{"settled without a spend event", edit("settled", func(p *pay.Payment) { p.EventID = "" }), "which its spend event contradicts"},
		{"void and disputed", edit("void", func(p *pay.Payment) { p.Disputed = true }), "without being settled"},
		{"confirmed and disputed", edit("disputed", func(p *pay.Payment) { p.Confirmed = true }), "both confirmed and disputed"},
		{"settled and unresolved", edit("settled", func(p *pay.Payment) { p.Unresolved = true }), "unresolved without being open"},
		{"settled and refused", edit("settled", func(p *pay.Payment) { p.Refused = true }), "both refused and settled"},
		{"open and retired", edit("open", func(p *pay.Payment) { p.Retired = true }), "payload was dropped"},
		{"disputed without a correction", edit("settled", func(p *pay.Payment) { p.Disputed = true }), "0 spend events take its own back"},
		{"corrected without a dispute", edit("disputed", func(p *pay.Payment) { p.Disputed = false }), "which is not disputed"},
		{"reservation given back twice", edit("open", func(p *pay.Payment) { p.Reservations[0].Released = true }), "the payments make"},
		{"reservation of more", edit("open", func(p *pay.Payment) { p.Reservations[0].Amount = money.New(7) }), "the payments make"},
		{"another lease", edit("open", func(p *pay.Payment) { p.Lease.Until = noon.Add(time.Hour) }), "is missing in leases"},
		{"another transaction", edit("settled", func(p *pay.Payment) { p.Transaction = transaction(99) }), "is missing in payments_by_tx"},
		{"counter lost", remove(countersBucket), "is missing, the payments make"},
		{"counter of nothing", put(countersBucket, "day/none", "3"), "counter day/none is 3, the payments make 0"},
		{"counter that is none", put(countersBucket, "day/none", "x"), "counter day/none"},
		{"price never paid", put(countersBucket, "price/k0", "6"), "never paid"},
		{"label count", put(labelCountsBucket, "open", "7"), "7 payments are counted as open"},
		{"unknown label count", put(labelCountsBucket, "lost", "7"), `unknown label "lost"`},
		{"spend event lost", remove(eventsBucket), "is settled, but its spend event"},
		{"spend event of nothing", func(tx *bbolt.Tx) error {
			row := codec.EncodeEvent(&pay.SpendEvent{ID: "e", KeyID: "k0", PaymentID: "none"})
			return tx.Bucket(eventsBucket).Put(joinKey("k0", "e"), row)
		}, "payment none: payment not found"},
		{"spend event twice", func(tx *bbolt.Tx) error {
			k, v := tx.Bucket(eventsBucket).Cursor().First()
			e, err := decodeEvent(k, v)
			if err != nil {
				return err
			}
			e.ID, e.Task = "e", ""
			row := codec.EncodeEvent(&e)
			return tx.Bucket(eventsBucket).Put(joinKey("k0", "e"), row)
		}, "is not that of its payment"},
		{"spend event of more", editEvent(func(e *pay.SpendEvent) { e.Amount = money.New(6) }), "something else than its payment"},
		{"spend event of another host", editEvent(func(e *pay.SpendEvent) { e.Host = "b.example" }), "something else than its payment"},
		{"spend event under another id", func(tx *bbolt.Tx) error {
			events := tx.Bucket(eventsBucket)
			k, v := events.Cursor().First()
			return errors.Join(events.Put(joinKey("k0", "e"), bytes.Clone(v)), events.Delete(k))
		}, "is not that of its payment"},
		{"task lost", remove(taskEventsBucket), "is not found by its task"},
		{"task of nothing", put(taskEventsBucket, "k0\x00crawl\x00e", ""), "no spend event makes"},
		{"key lost", remove(keysBucket), "key not found"},
		{"hash lost", remove(keyHashBucket), "found by 0 hashes"},
		{"hash twice", put(keyHashBucket, "another", "k0"), "found by 2 hashes"},
		{"revision", put(revisionsBucket, "k0", "7"), "listed is 7"},
		{"revision of nothing", put(revisionsBucket, "none", "7"), "which is not there"},
		{"secret lost", remove(keySecretsBucket), "copy of their secret"},
		{"secret of an unclaimed key", put(keySecretsBucket, "k0", "x"), "copy of their secret"},
		{"secret unreadable", put(keySecretsBucket, "k1", "x"), "secret of key k1"},
		{"organization lost", remove(orgsBucket), "has keys, but no row"},
		{"member lost", remove(orgKeysBucket), "missing in its organization"},
		{"member of another", put(orgKeysBucket, "org\x00k0", ""), "not its own"},
		{"wallet lost", remove(walletsBucket), "which is not there"},
		{"wallet not listed", remove(liveWalletsBucket), "live but not listed"},
		{"deleted wallet listed", put(liveWalletsBucket, "k0\x00deletedk0", ""), "not a live wallet"},
		{"address lost", remove(addressesBucket), "not found by its address"},
		{"address of nothing", put(addressesBucket, "another", "livek0"), "does not have it"},
		{"key material of nothing", put(walletSecretsBucket, "none", "x"), "which is not there"},
		{"key material unreadable", put(walletSecretsBucket, "livek0", "x"), "secret of wallet livek0"},
		{"loan not listed", remove(walletKeysBucket), "which it is lent to"},
		{"loan of nothing", put(walletKeysBucket, "livek0\x00none", ""), "which it is not lent to"},
		{"loan to the owner", put(lentWalletsBucket, "k0\x00livek0", "12345678"), "which cannot be"},
		{"replaced secret of nothing", put(replacedBucket, "x", "none"), "which is not there"},
		{"exec key of nothing", put(metaBucket, "exec", "none"), "the exec key"},
		{"exec key that is none", put(metaBucket, "exec", "k0"), "its row does not say so"},
		{"deployment's wallet of nothing", put(metaBucket, "drawn", `{"base":"none"}`), "which cannot be"},
		{"bucket lost", func(tx *bbolt.Tx) error { return tx.DeleteBucket(dueBucket) }, "bucket payments_due is missing"},
		{"bucket of another", func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }, `unknown bucket "theirs"`},
		{"store without an id", put(metaBucket, "id", ""), "no id"},
		{"world", put(metaBucket, "world", "base"), "is not the sandbox"},
		{"genesis", put(metaBucket, "genesis", `{"base":"0x1"}`), "the genesis hash"},
		{"marks", put(metaBucket, string(backupsKey), "x"), "marks of its backups"},
	}
	for _, bucket := range [][]byte{
		keyPaymentsBucket, labelsBucket, labelledBucket, awaitedBucket, livingBucket, hostsBucket, leasesBucket, dueBucket, transactionsBucket,
	} {
		cases = append(cases,
			damage{string(bucket) + " lost", remove(bucket), "is missing in " + string(bucket)},
			damage{string(bucket) + " of nothing", put(bucket, "k0\x00none", ""), string(bucket) + ` has an entry for payment "none"`},
			damage{string(bucket) + " of another", func(tx *bbolt.Tx) error {
				k, _ := tx.Bucket(paymentsBucket).Cursor().First()
				return tx.Bucket(bucket).Put(joinKey("other", string(k)), nil)
			}, string(bucket) + " has an entry"},
		)
	}
	for _, c := range cases {
		c.seen(t, path, text)
	}
}

// A report does not grow with the damage.
func TestCheckEnds(t *testing.T) {
	t.Parallel()
	o := filled(t)
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		for i := range 3 * maxFaults {
			if err := tx.Bucket(countersBucket).Put(fmt.Appendf(nil, "c%d", i), []byte("1")); err != nil {
				return err
			}
		}
		return nil
	})
	r, err := CheckFile(t.Context(), o.Path, nil)
	if err != nil || len(r.Faults) != maxFaults || !r.More || !strings.HasSuffix(r.Err().Error(), "and more") {
		t.Errorf("%d faults, %v", len(r.Faults), err)
	}
}

// A broken file does not end the program that checks it.
func TestCheckOfBrokenPages(t *testing.T) {
	t.Parallel()
	path, text := small(t)
	page := os.Getpagesize()
	seen := 0
	for n := 2; n < len(text)/page; n++ {
		for _, damage := range []func(page []byte){
			func(p []byte) { clear(p) },
			func(p []byte) { copy(p, bytes.Repeat([]byte{0xff}, len(p))) },
			func(p []byte) { copy(p[16:], bytes.Repeat([]byte{0x31, 0x07, 0xee}, 600)) },
		} {
			broken := bytes.Clone(text)
			damage(broken[n*page : (n+1)*page])
			if err := os.WriteFile(path, broken, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := CheckFile(t.Context(), path, nil)
			if err != nil || r.Err() != nil {
				seen++
			}
		}
	}
	if seen < len(text)/page-2 { // that of free pages is harmless
		t.Errorf("of %d pages that were broken in three ways, %d were seen", len(text)/page-2, seen)
	}
	if err := os.WriteFile(path, text[:len(text)/4], 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := CheckFile(t.Context(), path, nil); err != nil || !strings.Contains(fmt.Sprint(r.Faults), "the file is damaged") {
		t.Errorf("truncated: %v, %q", err, r.Faults)
	}
}
