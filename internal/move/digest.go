package move

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/codec"
)

// Total says what the records of a kind add up to.
type Total struct {
	Kind  Kind
	Count int
	Sums  string // amounts by currency, of payments and spend events; else ""
	Hash  string // of all records in order, in hex
}

// Totals reads a store and adds up each kind.
func Totals(ctx context.Context, s Store, progress func(Kind, int)) ([]Total, error) {
	list := make([]Total, Kinds)
	sums := [Kinds]map[string]*big.Int{}
	hashes := [Kinds]hash.Hash{}
	for k := range Kinds {
		list[k].Kind, hashes[k], sums[k] = k, sha256.New(), map[string]*big.Int{}
	}
	var room []byte
	err := s.Export(ctx, nil, func(r Record) error {
		room = r.append(room[:0])
		_, _ = hashes[r.Kind].Write(room) // it does not fail
		t := &list[r.Kind]
		t.Count++
		if progress != nil {
			progress(r.Kind, t.Count)
		}
		currency, amount, err := r.amount()
		if err != nil || amount == nil {
			return err
		}
		if sums[r.Kind][currency] == nil {
			sums[r.Kind][currency] = new(big.Int)
		}
		sums[r.Kind][currency].Add(sums[r.Kind][currency], amount)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Name(), err)
	}
	for k := range Kinds {
		list[k].Hash = hex.EncodeToString(hashes[k].Sum(nil))
		var parts []string
		for _, currency := range slices.Sorted(maps.Keys(sums[k])) {
			parts = append(parts, sums[k][currency].String()+" "+currency)
		}
		list[k].Sums = strings.Join(parts, ", ")
	}
	return list, nil
}

// append writes the fields behind their lengths, so that no two records look alike.
func (r Record) append(to []byte) []byte {
	to = binary.AppendUvarint(append(to, byte(r.Kind)), r.N)
	for _, part := range [][]byte{[]byte(r.A), []byte(r.B), r.Row, r.More} {
		to = append(binary.AppendUvarint(to, uint64(len(part))), part...)
	}
	return to
}

// amount returns what a payment or spend event moved or may move; nil: the record is another one.
func (r Record) amount() (currency string, amount *big.Int, err error) {
	switch r.Kind { //nolint:exhaustive // the others have no currency
	case Payment:
		p, err := codec.DecodeBrief(r.Row)
		if err != nil {
			return "", nil, fmt.Errorf("payment %s: %w", r.A, err)
		}
		moved, err := p.Moved()
		return p.Currency, moved.Big(), err
	case Spend:
		e, err := codec.DecodeEvent(r.A, r.B, r.Row)
		if err != nil {
			return "", nil, fmt.Errorf("spend event %s: %w", r.B, err)
		}
		return e.Currency, e.Amount.Big(), nil
	}
	return "", nil, nil
}

// Differences compares the totals of two stores.
func Differences(from, to []Total) (list []string) {
	for k := range from {
		if from[k] != to[k] {
			list = append(list, fmt.Sprintf("%s: %d records, sum %q and hash %.12s… became %d, %q and %.12s…",
				from[k].Kind, from[k].Count, from[k].Sums, from[k].Hash, to[k].Count, to[k].Sums, to[k].Hash))
		}
	}
	return list
}
