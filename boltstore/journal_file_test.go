package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// unclean leaves a store as kill -9 does after n payments, and returns their ids. The journal has
// them, and the database does not.
func unclean(t *testing.T, n int) (o Options, ids []string) {
	t.Helper()
	o = inFolder(t.TempDir())
	d := openIn(t, o)
	for range n {
		ids = append(ids, begun(t, d, "k").ID)
	}
	killed(t, d)
	return o, ids
}

func journalOf(t *testing.T, o Options) []byte {
	t.Helper()
	text, err := os.ReadFile(JournalPath(o.Path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func putJournal(t *testing.T, o Options, text []byte) {
	t.Helper()
	if err := os.WriteFile(JournalPath(o.Path), text, fileMode); err != nil {
		t.Fatal(err)
	}
}

// ends lists where the records of the newest epoch end.
func ends(t *testing.T, o Options, journal []byte) (ends []int) {
	t.Helper()
	seed := journalSeed(storeID(t, o))
	for r, ok := recordAt(journal, journalHead, seed); ok; r, ok = recordAt(journal, r.end, seed) {
		ends = append(ends, r.end)
	}
	return ends
}

// TestTornTail cuts the last record at every byte. Zeros or the records of an earlier epoch follow.
func TestTornTail(t *testing.T) {
	t.Parallel()
	o, ids := unclean(t, 4)
	whole := journalOf(t, o)
	at := ends(t, o, whole)
	if len(at) != len(ids) {
		t.Fatalf("%d records of %d payments", len(at), len(ids))
	}
	whole = whole[:at[3]+2*recordHead]
	store := storeID(t, o)
	seed := journalSeed(store)
	first, _ := recordAt(whole, journalHead, seed)
	earlier := slices.Clone(whole)
	earlier = append(earlier[:at[2]], bytes.Repeat(whole[journalHead:at[0]], 3)...)
	for i := at[2]; i < len(earlier); { // records of the epoch before
		r, ok := recordAt(earlier, i, seed)
		if !ok {
			break
		}
		head := earlier[i : i+recordHead]
		head[15]--
		sum := recordSum(seed, head, r.changes)
		copy(head[24:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
		i = r.end
	}
	for name, behind := range map[string][]byte{"zeros": make([]byte, len(earlier)), "earlier records": earlier} {
		for cut := at[2]; cut <= at[3]; cut++ {
			torn := append(slices.Clone(whole[:cut]), behind[cut:]...)
			putJournal(t, o, torn)
			c, err := readJournal(JournalPath(o.Path), store, first.epoch)
			want := 3
			if r, ok := recordAt(torn, at[2], seed); ok && r.epoch == first.epoch {
				want = 4
			}
			if err != nil || len(c.records) != want || c.newest != first.epoch {
				t.Fatalf("%s, cut at %d: %d records, newest epoch %d, %v", name, cut-at[2], len(c.records), c.newest, err)
			}
			if want == 4 && cut < at[3]-recordAlign {
				t.Fatalf("cut at %d of %d, the record is whole", cut-at[2], at[3]-at[2])
			}
		}
	}

	putJournal(t, o, whole[:at[3]-recordAlign])
	d := openIn(t, o)
	for i, id := range ids {
		_, err := d.Payment(t.Context(), id)
		if want := i == 3; errors.Is(err, pay.ErrPaymentNotFound) != want {
			t.Errorf("payment %d: %v", i, err)
		}
	}
	if r := restoreOf(t, d); r != nil {
		t.Errorf("a torn tail is reconciled: %+v", r)
	}
	begun(t, d, "k")
	checked(t, d)
}

// storeID reads the id of a closed store.
func storeID(t *testing.T, o Options) (id string) {
	t.Helper()
	inside(t, o.Path, func(tx *bbolt.Tx) error {
		id = string(tx.Bucket(metaBucket).Get(storeIDKey))
		return nil
	})
	return id
}

// A record that is damaged before the end of the journal stops the start. Nothing is changed.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	o, _ := unclean(t, 3)
	whole := journalOf(t, o)
	at := ends(t, o, whole)
	for _, offset := range []int{0, 4, 12, 20, 25, recordHead, recordHead + 100, at[0] - journalHead - recordAlign} {
		broken := slices.Clone(whole)
		broken[journalHead+offset] ^= 0xff
		putJournal(t, o, broken)
		before, err := os.ReadFile(o.Path)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, o, ErrJournal, "journal", "reconciled like a restored backup")
		after, err := os.ReadFile(o.Path)
		if err != nil || !bytes.Equal(before, after) || !bytes.Equal(journalOf(t, o), broken) {
			t.Fatalf("byte %d: refusing has changed a file, %v", offset, err)
		}
		if r, err := CheckFile(t.Context(), o.Path, nil); err != nil || r.Err() == nil {
			t.Errorf("byte %d: the check finds %v, %v", offset, r.Faults, err)
		}
	}
	foreign, _ := unclean(t, 1)
	putJournal(t, o, journalOf(t, foreign))
	refused(t, o, ErrJournal, "not the one of this database")

	// The way out that the error names.
	if err := os.Remove(JournalPath(o.Path)); err != nil {
		t.Fatal(err)
	}
	r, err := CheckFile(t.Context(), o.Path, nil)
	if err != nil || len(r.Faults) != 1 || !r.Pages {
		t.Errorf("without its journal the check finds %v, %v", r.Faults, err)
	}
	for range 2 {
		d := openIn(t, o)
		wantRefused(t, d)
		closed(t, d)
	}
}

// What only the journal has is checked, and compaction takes it in.
func TestCheckAndCompactWithAJournal(t *testing.T) {
	t.Parallel()
	o, ids := unclean(t, 3)
	db, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	journal := journalOf(t, o)
	if r := sound(t, o.Path); r.Payments != len(ids) {
		t.Errorf("the check sees %d payments", r.Payments)
	}
	after, err := os.ReadFile(o.Path)
	if err != nil || !bytes.Equal(db, after) || !bytes.Equal(journal, journalOf(t, o)) {
		t.Errorf("the check has changed a file, %v", err)
	}
	if _, _, err := Compact(t.Context(), o.Path); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []bool{false, true} {
		if gone {
			if err := os.Remove(JournalPath(o.Path)); err != nil {
				t.Fatal(err)
			}
		}
		if r := sound(t, o.Path); r.Payments != len(ids) {
			t.Errorf("after compaction there are %d payments", r.Payments)
		}
	}
	begun(t, openIn(t, o), "k")
}

// A plain copy of a running store is complete with the journal that goes with it.
func TestCopyWithItsJournal(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	plainCopy(t, o.Path, o.Path+".copy")
	p := begun(t, d, "k")
	closed(t, d)
	plainCopy(t, o.Path+".copy", o.Path)
	d = openIn(t, o)
	if _, err := d.Payment(t.Context(), p.ID); err != nil {
		t.Error(err)
	}
	begun(t, d, "k")
	checked(t, d)
}

// TestFailingFlush loses the journal's file under the committer, with and without its name.
func TestFailingFlush(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]bool{"closed": false, "closed and removed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openIn(t, inFolder(t.TempDir()))
			ctx := t.Context()
			p, q := begun(t, d, "k"), begun(t, d, "k")
			err := d.do(ctx, &op{run: func(*batch) error { return d.journal.file.Close() }})
			if err == nil && remove {
				err = os.Remove(JournalPath(d.path))
			}
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = d.Record(ctx, settlement(p))
			if err != nil && !errors.Is(err, pay.ErrQueued) {
				t.Fatal(err)
			}
			eventually(t, "the store goes on", func() bool { return d.Health(ctx) == nil })
			if _, _, err := d.Record(ctx, settlement(q)); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{p.ID, q.ID} {
				if got, err := d.Payment(ctx, id); err != nil || got.State != pay.Settled {
					t.Errorf("%+v, %v", got, err)
				}
			}
			checked(t, d)
		})
	}
}

// A journal whose file was removed while the store is open loses nothing: the database takes in
// what it had.
func TestJournalRemovedWhileOpen(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	begun(t, d, "k")
	if err := os.Remove(JournalPath(o.Path)); err != nil {
		t.Fatal(err)
	}
	p := begun(t, d, "k")
	begun(t, d, "k")
	killed(t, d)
	d = openIn(t, o)
	if _, err := d.Payment(t.Context(), p.ID); err != nil {
		t.Error(err)
	}
	begun(t, d, "k")
	checked(t, d)
}

// TestReadersAndBatches holds a batch before it is durable. Readers see its payments, and wait for
// its wallets.
func TestReadersAndBatches(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	ctx := t.Context()
	if _, err := d.CreateKey(ctx, pay.NewKey{Key: pay.Key{ID: "k"}, Secret: "pk_secret"}); err != nil {
		t.Fatal(err)
	}
	at, on := make(chan struct{}), make(chan struct{})
	hook := func(commit func() error) error { at <- struct{}{}; <-on; return commit() }
	d.hooks.commit.Store(&hook)

	b := call("k")
	done := make(chan error, 1)
	go func() { _, err := d.Begin(ctx, b); done <- err }()
	<-at
	if _, err := d.Payment(ctx, b.New.ID); err != nil {
		t.Errorf("a payment that is not durable: %v", err)
	}
	on <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	go func() {
		done <- d.CreateWallet(ctx, pay.NewWallet{Wallet: pay.Wallet{ID: "w", KeyID: "k"}, Secret: []byte("secret")}, 5)
	}()
	<-at
	seen := make(chan error, 1)
	go func() { _, err := d.Wallet(ctx, "w"); seen <- err }()
	select {
	case err := <-seen:
		t.Errorf("a reader did not wait: %v", err)
	case <-time.After(50 * time.Millisecond): // a reader that does not wait is faster
	}
	on <- struct{}{}
	if err := errors.Join(<-done, <-seen); err != nil {
		t.Error(err)
	}
	d.hooks.commit.Store(nil)
	checked(t, d)
}

// TestPrevious walks a bucket down in the transaction that has emptied some of its pages.
func TestPrevious(t *testing.T) {
	t.Parallel()
	bolt, err := bbolt.Open(t.TempDir()+"/b.db", fileMode, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bolt.Close()
	name, key := []byte("b"), func(i int) []byte { return fmt.Appendf(nil, "p\x00%06d", i) }
	err = bolt.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(name)
		for i := 0; i < 5000 && err == nil; i++ {
			err = b.Put(key(i), make([]byte, 50))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = bolt.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(name)
		want := []int{}
		for i := 4999; i >= 0; i-- {
			if i%1000 == 7 {
				want = append(want, i)
			} else if err := b.Delete(key(i)); err != nil {
				return err
			}
		}
		got := []int{}
		descend(b, []byte("p\x00"), "", func(rest, _ []byte) bool {
			var i int
			_, err := fmt.Sscanf(string(rest), "%d", &i)
			got = append(got, i)
			return err == nil
		})
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzReadJournal reads whatever a disk may hold.
func FuzzReadJournal(f *testing.F) {
	b := &batch{}
	for _, v := range [][]byte{nil, {}, []byte("value")} {
		b.changes = append(b.changes, change{bucket: countersBucket, key: []byte("key" + string(v)), value: v})
	}
	dir := f.TempDir()
	j, err := openJournal(dir+"/seed.journal", "store", 7, true)
	if err != nil {
		f.Fatal(err)
	}
	for range 3 {
		if err := j.append(b.encode()); err != nil {
			f.Fatal(err)
		}
	}
	if err := j.close(); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(dir + "/seed.journal")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed[journalHead:j.end], uint16(0))
	f.Add(seed[journalHead:j.end], uint16(40))
	f.Add(append([]byte{}, seed[journalHead:j.end-recordAlign]...), uint16(3))
	f.Fuzz(func(t *testing.T, records []byte, flip uint16) {
		if int(flip) < len(records) {
			records = slices.Clone(records)
			records[flip] ^= 0x55
		}
		path := t.TempDir() + "/x.journal"
		head := make([]byte, journalHead)
		copy(head, journalHeader("store"))
		completeRecord(head[journalMark:journalMark+recordHead], 7, 0, journalSeed("store"))
		if err := os.WriteFile(path, append(head, records...), fileMode); err != nil {
			t.Fatal(err)
		}
		c, err := readJournal(path, "store", 7)
		if err != nil && !errors.Is(err, ErrJournal) {
			t.Fatal(err)
		}
		bolt, err := bbolt.Open(t.TempDir()+"/b.db", fileMode, &bbolt.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer bolt.Close()
		tx, err := bolt.Begin(true)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range append(c.records, records) {
			_ = replay(tx, r) // must not panic
		}
	})
}

// A listing ends although the open transaction has emptied every page of its index.
func TestListingOfAnEmptiedIndex(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	var open []*pay.Payment
	for range 200 {
		open = append(open, begun(t, d, "k"))
	}
	checkpointed(t, d)
	for _, p := range open {
		if _, _, err := d.Record(t.Context(), settlement(p)); err != nil {
			t.Fatal(err)
		}
	}
	listed := make(chan error, 1)
	go func() {
		list, err := d.Payments(t.Context(), pay.PaymentQuery{KeyID: "k", Label: string(pay.Open), Limit: 10})
		if err == nil && len(list) > 0 {
			err = fmt.Errorf("%d payments are open", len(list))
		}
		listed <- err
	}()
	select {
	case err := <-listed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the listing does not end")
	}
}
