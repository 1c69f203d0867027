package pgstore_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pgstore"
)

// Lists of the committer are encoded as those of pgx, behind whatever else the statement has.
func TestListsLikeDriver(t *testing.T) {
	t.Parallel()
	element := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
	})
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "before")
		for _, c := range []struct {
			oid  uint32
			list any
		}{
			{pgtype.ByteaArrayOID, pgstore.Bytes(rapid.SliceOf(element).Draw(t, "list of bytes"))},
			{pgtype.ByteaArrayOID, rapid.SliceOf(element).Draw(t, "plain list of bytes")},
			{pgtype.TextArrayOID, rapid.SliceOf(rapid.String()).Draw(t, "list of texts")},
			{pgtype.Int8ArrayOID, rapid.SliceOf(rapid.Int64()).Draw(t, "list of numbers")},
			{pgtype.Int2ArrayOID, rapid.SliceOf(rapid.Int16()).Draw(t, "list of small numbers")},
		} {
			own, others := pgstore.Encoders(c.oid, c.list)
			is, err := own(slices.Clone(before))
			want, wantErr := others(slices.Clone(before))
			if err != nil || wantErr != nil || !bytes.Equal(is, want) {
				t.Fatalf("%v: %x, %v; pgx: %x, %v", c.list, is, err, want, wantErr)
			}
		}
	})
}

// A second statement is encoded where the first one was, without a new buffer.
func TestArgumentsKeepBuffer(t *testing.T) {
	t.Parallel()
	encode, _ := pgstore.Encoders(pgtype.TextArrayOID, []string{strings.Repeat("x", 5_000)})
	small := make([]byte, 0, 256)
	first, err := encode(small)
	if err != nil {
		t.Fatal(err)
	}
	second, err := encode(small)
	if err != nil || &second[0] != &first[0] {
		t.Errorf("another buffer, or %v", err)
	}
}

// Round trips that fit into the buffer, and those that do not, arrive as they were sent.
func TestRoundTripsOfAnySize(t *testing.T) {
	t.Parallel()
	d := node(t, pgstore.Options{URL: fresh(t, pgtest.Start(t))})
	for _, size := range []int{1, pgstore.TripSize / 4, pgstore.TripSize, 3 * pgstore.TripSize, 10} {
		list := [][]byte{bytes.Repeat([]byte{1}, size), nil, {}, bytes.Repeat([]byte{2}, 7)}
		back, err := d.Echo(t.Context(), list, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range back {
			if !slices.EqualFunc(got, list, bytes.Equal) {
				t.Errorf("%d bytes: statement %d of %d came back changed", size, i+1, len(back))
			}
		}
	}
}
