package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

const (
	// daySize bounds the bytes that the sums of a day take in a sheet.
	daySize = 1000
	// maxDrawn bounds the wallets of a day that have sums in a sheet.
	maxDrawn = 8
)

// day holds what a key spent on a day, and drew from wallets, as its sheet has it.
type day struct {
	number        int32  // since 1970
	row, drawnRow []byte // encoded
	// decoded: spent and drawn have what row and drawnRow say.
	decoded bool
	spent   codec.Day
	drawn   []codec.Drawn
}

func (d *day) decode() error {
	if d.decoded {
		return nil
	}
	spent, err := codec.DecodeDay(d.row)
	drawn, drawnErr := codec.DecodeDrawn(d.drawnRow)
	if err := errors.Join(err, drawnErr); err != nil {
		return err
	}
	d.spent, d.drawn, d.decoded = spent, drawn, true
	return nil
}

// encode makes the rows, and returns their size.
func (d *day) encode() int {
	d.row, d.drawnRow = d.spent.Encode(), codec.EncodeDrawn(d.drawn)
	return len(d.row) + len(d.drawnRow)
}

// spendDay holds a row of spend_days: what a key spent on a day whose sums do not stand in its sheet.
type spendDay struct {
	codec.Day
	stored, changed bool
}

// drawnDay names the sums of what a key drew from a wallet on a day. Keys that share a wallet have sums of
// their own, so that they need not wait for each other.
type drawnDay struct {
	wallet string
	day    int32
	key    string
}

func dayQuestion(keyID string, number int32) question {
	return question{askDay, keyID, strconv.Itoa(int(number))}
}

// dayOf returns the day of a question about one.
func dayOf(q question) int32 {
	n, _ := strconv.ParseInt(q.b, 10, 32) // dayQuestion wrote it
	return int32(n)
}

// dayNumber counts the days since 1970.
func dayNumber(t time.Time) int32 {
	return int32(max(0, min(pay.DayOf(t).Unix()/int64(24*time.Hour/time.Second), math.MaxInt32)))
}

func dayTime(n int32) time.Time { return time.Unix(int64(n)*int64(24*time.Hour/time.Second), 0).UTC() }

// takeDay takes a row of spend_days.
func takeDay(s *state, f *answer) (err error) {
	d := s.days[dayQuestion(f.a, int32(f.n))] //nolint:gosec // of an integer column
	if !d.changed {
		d.Day, err = codec.DecodeDay(f.row)
		d.stored = true
	}
	return err
}

// prepare asks for what event needs: errAsk, errLocks.
func (s *state) prepare(e *pay.SpendEvent) error {
	lock, n := keyLock(e.KeyID), dayNumber(e.Created)
	if err := s.needs(lock); err != nil {
		return err
	}
	if _, err := s.ask(askSheet, lock, ""); err != nil {
		return err
	}
	sh := s.sheet(lock)
	if sh.day != nil {
		if err := sh.day.decode(); err != nil {
			return fmt.Errorf("spend of key %s on %s: %w", e.KeyID, dayTime(sh.day.number).Format(time.DateOnly), err)
		}
		if sh.day.number == n {
			return nil
		}
	}
	q := dayQuestion(e.KeyID, n)
	_, err := s.ask(q.kind, q.a, q.b)
	return err
}

// event adds a spend event, and counts it in the days of its key and wallet. prepare has asked for the first.
func (s *state) event(p *pay.Payment, e *pay.SpendEvent) {
	n := dayNumber(e.Created)
	from := drawnDay{p.WalletID, n, p.KeyID}
	if sh := s.newest(e.KeyID, n); sh != nil {
		sh.changed = true
		sh.day.spent.Add(e)
		s.drawOn(sh.day, from, p, e)
	} else {
		d := s.days[dayQuestion(e.KeyID, n)]
		d.Add(e)
		d.changed = true
		s.drawnFrom(from).Event(p, e)
	}
	s.events = append(s.events, e)
	if e.Host != "" {
		q := ofKey(askPaid, e.KeyID, hashed(e.Host))
		if s.pays(q, p); s.dialed[q] { // else the database may have a payment that is
			s.answered[q] = true
		}
	}
}

// newest returns the sheet of a key if the sums of a day stand there, or may begin there; nil: they stand apart.
func (s *state) newest(keyID string, n int32) *sheet {
	sh := s.sheet(keyLock(keyID))
	if sh.day != nil && sh.day.number == n {
		return sh
	}
	apart := s.days[dayQuestion(keyID, n)]
	if apart.stored || apart.changed || sh.day != nil && sh.day.number > n {
		return nil
	}
	s.setApart(keyID, sh)
	sh.day = &day{number: n, decoded: true}
	return sh
}

// setApart moves the sums of the day in a sheet to spend_days and wallet_days.
func (s *state) setApart(keyID string, sh *sheet) {
	d := sh.day
	if d == nil {
		return
	}
	q := dayQuestion(keyID, d.number)
	s.days[q], s.answered[q] = &spendDay{Day: d.spent, changed: true}, true
	for _, one := range d.drawn {
		s.drawnFrom(drawnDay{one.WalletID, d.number, keyID}).Add(one.WalletDay)
	}
	sh.day = nil
}

// drawnFrom returns what the batch adds to a row of wallet_days, which it makes if need be.
func (s *state) drawnFrom(from drawnDay) *pay.WalletDay {
	sums := s.drawn[from]
	if sums == nil {
		sums = new(pay.WalletDay)
		s.drawn[from] = sums
	}
	return sums
}

// drawOn counts an event in the wallets of a day in a sheet. Each has a row of wallet_days, by which the key is found.
func (s *state) drawOn(d *day, from drawnDay, p *pay.Payment, e *pay.SpendEvent) {
	i := codec.IndexOfWallet(d.drawn, from.wallet)
	if i < 0 {
		if len(d.drawn) >= maxDrawn {
			s.drawnFrom(from).Event(p, e)
			return
		}
		s.drawnFrom(from)
		i, d.drawn = len(d.drawn), append(d.drawn, codec.Drawn{WalletID: from.wallet})
	}
	d.drawn[i].Event(p, e)
}

func (s *state) flushDays(b *pgx.Batch) {
	type columns struct {
		keys []string
		days []int32
		rows array[[]byte]
	}
	var changed, fresh columns
	for q, d := range s.days {
		if !d.changed {
			continue
		}
		to := &fresh
		if d.stored {
			to = &changed
		}
		to.keys, to.days, to.rows = append(to.keys, q.a), append(to.days, dayOf(q)), append(to.rows, d.Encode())
	}
	if len(changed.keys) > 0 {
		b.Queue(`UPDATE spend_days d SET row = u.row FROM (SELECT unnest($1::text[]) key_id, unnest($2::int[]) AS day, unnest($3::bytea[]) AS row) u WHERE d.key_id = u.key_id AND d.day = u.day`,
			changed.keys, changed.days, changed.rows)
	}
	if len(fresh.keys) > 0 {
		b.Queue(`INSERT INTO spend_days (key_id, day, row) SELECT unnest($1::text[]), unnest($2::int[]), unnest($3::bytea[])`, fresh.keys, fresh.days, fresh.rows)
	}
}

// largest is the largest amount, 2^256-1, at which sums stay.
const largest = "115792089237316195423570985008687907853269984665640564039457584007913129639935"

func (s *state) flushDrawn(b *pgx.Batch) {
	if len(s.drawn) == 0 {
		return
	}
	var wallets, keys, spent, spentBack, withdrawn, withdrawnBack []string
	var days []int32
	var spentCount, withdrawnCount []int64
	for at, d := range s.drawn {
		wallets, days, keys = append(wallets, at.wallet), append(days, at.day), append(keys, at.key)
		spentCount, spent, spentBack = append(spentCount, int64(d.Spent.Count)), append(spent, d.Spent.Amount.String()), append(spentBack, d.Spent.Corrected.String())
		withdrawnCount, withdrawn, withdrawnBack = append(withdrawnCount, int64(d.Withdrawn.Count)), append(withdrawn, d.Withdrawn.Amount.String()), append(withdrawnBack, d.Withdrawn.Corrected.String())
	}
	b.Queue(`INSERT INTO wallet_days AS d `+drawnNames+` SELECT w, y, k, n, a::numeric, b::numeric, m, c::numeric, e::numeric
		FROM unnest($1::text[], $2::int[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[]) u (w, y, k, n, a, b, m, c, e)
		ON CONFLICT (wallet_id, day, key_id) DO UPDATE SET
		spent_count = d.spent_count + excluded.spent_count, withdrawn_count = d.withdrawn_count + excluded.withdrawn_count,
		spent = least(d.spent + excluded.spent, `+largest+`), spent_back = least(d.spent_back + excluded.spent_back, `+largest+`),
		withdrawn = least(d.withdrawn + excluded.withdrawn, `+largest+`), withdrawn_back = least(d.withdrawn_back + excluded.withdrawn_back, `+largest+`)`,
		wallets, days, keys, spentCount, spent, spentBack, withdrawnCount, withdrawn, withdrawnBack)
}

const drawnNames = `(wallet_id, day, key_id, spent_count, spent, spent_back, withdrawn_count, withdrawn, withdrawn_back)`

// VisitSpendDays visits the daily sums of the keys from one UTC day to another.
func (d *DB) VisitSpendDays(ctx context.Context, keyIDs []string, from, to time.Time, visit pay.SpendDays) error {
	first := int32(0)
	if !from.IsZero() {
		first = dayNumber(from)
	}
	return d.each(ctx, func(r pgx.Rows) error {
		var keyID string
		var n int32
		var row []byte
		if err := r.Scan(&keyID, &n, &row); err != nil {
			return err
		}
		return codec.VisitSpend(keyID, dayTime(n), row, visit)
	}, `SELECT key_id, day, row FROM days WHERE key_id = ANY($1) AND day BETWEEN $2 AND $3 ORDER BY key_id, day`, keyIDs, first, dayNumber(to))
}

// VisitWalletDays visits what left wallets from one UTC day to another.
func (d *DB) VisitWalletDays(ctx context.Context, walletIDs []string, from, to time.Time, visit func(string, pay.WalletDay)) error {
	return visitWalletDays(ctx, d.pool, func(walletID string, day pay.WalletDay) error {
		visit(walletID, day)
		return nil
	}, `w.wallet_id = ANY($1) AND w.day BETWEEN $2 AND $3`, walletIDs, dayNumber(from), dayNumber(to))
}

// visitWalletDays visits what left wallets, by wallet and day: what wallet_days has, and what sheets have of their
// newest days.
func visitWalletDays(ctx context.Context, q querier, visit func(string, pay.WalletDay) error, where string, args ...any) error {
	var wallet string
	var sum pay.WalletDay
	leave := func() error {
		if wallet == "" && sum.Day.IsZero() {
			return nil
		}
		return visit(wallet, sum)
	}
	err := each(ctx, q, func(r pgx.Rows) error {
		var id, sums string
		var n int32
		var drawn []byte
		if err := r.Scan(&id, &n, &sums, &drawn); err != nil {
			return err
		}
		if day := dayTime(n); id != wallet || !day.Equal(sum.Day) {
			if err := leave(); err != nil {
				return err
			}
			wallet, sum = id, pay.WalletDay{Day: day}
		}
		part, err := sumsOf(sums)
		list, drawnErr := codec.DecodeDrawn(drawn)
		if i := codec.IndexOfWallet(list, id); i >= 0 {
			part.Add(list[i].WalletDay)
		}
		sum.Add(part)
		return errors.Join(err, drawnErr)
	}, `SELECT w.wallet_id, w.day, concat_ws(' ', w.spent_count, w.spent, w.spent_back, w.withdrawn_count, w.withdrawn, w.withdrawn_back), s.drawn
		FROM wallet_days w LEFT JOIN sheets s ON s.key_id = w.key_id AND s.day = w.day WHERE `+where+` ORDER BY w.wallet_id, w.day`, args...)
	if err != nil {
		return err
	}
	return leave()
}

func sumsOf(text string) (d pay.WalletDay, err error) {
	parts := strings.Fields(text)
	if len(parts) != 6 {
		return d, fmt.Errorf("sums of a wallet's day: %q", text)
	}
	for i, s := range []*pay.Sum{&d.Spent, &d.Withdrawn} {
		count, countErr := strconv.Atoi(parts[3*i])
		amount, amountErr := money.Parse(parts[3*i+1])
		back, backErr := money.Parse(parts[3*i+2])
		*s = pay.Sum{Count: count, Amount: amount, Corrected: back}
		err = errors.Join(err, countErr, amountErr, backErr)
	}
	return d, err
}
