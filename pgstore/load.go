package pgstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// reader asks the questions of one kind. Rows go to the state.
type reader struct {
	sql  string
	args func(list []question) []any
	scan func(s *state, rows pgx.CollectableRow) error
}

// firsts and seconds list what questions are about.
func firsts(list []question) []string {
	out := make([]string, len(list))
	for i, q := range list {
		out[i] = q.a
	}
	return out
}

func bytesOf(list []question, part func(question) string) array[[]byte] {
	out := make(array[[]byte], len(list))
	for i, q := range list {
		out[i] = []byte(part(q))
	}
	return out
}

// endOf is above all names that begin with what a question is about.
func endOf(q question) string { return endOfPrefix(q.a) }

func endOfPrefix(prefix string) string { return prefix + "\xff\xff" }

func first(q question) string  { return q.a }
func second(q question) string { return q.b }

func byText(list []question) []any  { return []any{firsts(list)} }
func byBytes(list []question) []any { return []any{bytesOf(list, first)} }
func byPair(list []question) []any  { return []any{firsts(list), bytesOf(list, second)} }

func byTexts(list []question) []any {
	others := make([]string, len(list))
	for i, q := range list {
		others[i] = q.b
	}
	return []any{firsts(list), others}
}

func byDay(list []question) []any {
	days := make([]int32, len(list))
	for i, q := range list {
		days[i] = dayOf(q)
	}
	return []any{firsts(list), days}
}

// dayOf returns the day of a question about one.
func dayOf(q question) int32 { return []rune(q.b)[0] }

// keep adds a stored payment to a state, unless the batch has one of its own.
func (s *state) keep(id string, row, payload []byte) error {
	if _, own := s.wrote[id]; own {
		return nil
	}
	q := question{askPayment, id, ""}
	if s.answered[q] && s.payments[id] != nil {
		return nil
	}
	p, err := codec.Decode(codec.Stored{Row: row, Payload: payload})
	if err != nil {
		return fmt.Errorf("payment %s: %w", id, err)
	}
	s.payments[id], s.answered[q] = p, true
	return nil
}

// inSet reads payments that a search has found.
func inSet(of func(p question, a string, b []byte) question, k kind) func(s *state, r pgx.CollectableRow) error {
	return func(s *state, r pgx.CollectableRow) error {
		var a, id string
		var b, row, payload []byte
		if err := r.Scan(&a, &b, &id, &row, &payload); err != nil {
			return err
		}
		if set := s.sets[of(question{kind: k}, a, b)]; set != nil {
			set[id] = true
		}
		return s.keep(id, row, payload)
	}
}

func pairOf(q question, a string, b []byte) question {
	q.a, q.b = a, string(b)
	return q
}

func bytesQuestion(q question, _ string, b []byte) question {
	q.a = string(b)
	return q
}

// readers says how each kind of question is asked.
func readers() [kinds]reader {
	return [kinds]reader{
		askPayment: {
			`SELECT id, row, payload FROM payments WHERE id = ANY($1)`, byText,
			func(s *state, r pgx.CollectableRow) error {
				var id string
				var row, payload []byte
				if err := r.Scan(&id, &row, &payload); err != nil {
					return err
				}
				return s.keep(id, row, payload)
			},
		},
		askLiving: {
			`SELECT p.key_id, p.living, p.id, p.row, p.payload FROM unnest($1::text[], $2::bytea[]) q (k, h) JOIN payments p ON p.key_id = q.k AND p.living = q.h`,
			byPair, inSet(pairOf, askLiving),
		},
		askAwaited: {
			`SELECT p.key_id, p.awaited, p.id, p.row, p.payload FROM unnest($1::text[], $2::bytea[]) q (k, h) JOIN payments p ON p.key_id = q.k AND p.awaited = q.h`,
			byPair, inSet(pairOf, askAwaited),
		},
		askTransaction: {
			`SELECT '', transaction, id, row, payload FROM payments WHERE transaction = ANY($1)`, byBytes, inSet(bytesQuestion, askTransaction),
		},
		askReconciled: {
			`SELECT '', q.h, p.id, p.row, p.payload FROM unnest($1::bytea[]) q (h) JOIN payments p ON p.nonce >= q.h AND p.nonce < q.h || '\xffffffffffffffffffffffffffffffffff'::bytea AND p.labels & 128 <> 0`,
			byBytes, inSet(bytesQuestion, askReconciled),
		},
		askAuthorization: {
			`SELECT p.payer, p.nonce FROM unnest($1::bytea[], $2::bytea[]) q (f, n) JOIN payments p ON p.nonce = q.n AND p.payer = q.f`,
			func(list []question) []any { return []any{bytesOf(list, first), bytesOf(list, second)} },
			func(s *state, r pgx.CollectableRow) error {
				var payer, nonce []byte
				err := r.Scan(&payer, &nonce)
				s.authorized[question{askAuthorization, string(payer), string(nonce)}] = true
				return err
			},
		},
		askHost: {
			`SELECT p.key_id, p.holds_host, p.id, p.valid_before FROM unnest($1::text[], $2::bytea[]) q (k, h) JOIN payments p ON p.key_id = q.k AND p.holds_host = q.h`,
			byPair,
			func(s *state, r pgx.CollectableRow) error {
				var keyID, id string
				var host []byte
				var until int64
				if err := r.Scan(&keyID, &host, &id, &until); err != nil {
					return err
				}
				s.hosts[question{askHost, keyID, string(host)}][id] = uint64(until) //nolint:gosec // written from an uint64
				return nil
			},
		},
		askAttempts: {
			`SELECT q.k, q.h, greatest((SELECT max(attempt) FROM payments p WHERE p.key_id = q.k AND p.attempt_of = q.h), (SELECT attempt FROM removed_attempts r WHERE r.key_id = q.k AND r.attempt_of = q.h))
				FROM unnest($1::text[], $2::bytea[]) q (k, h)`,
			byPair,
			func(s *state, r pgx.CollectableRow) error {
				var keyID string
				var hash []byte
				var n *int64
				if err := r.Scan(&keyID, &hash, &n); err != nil {
					return err
				}
				if q := (question{askAttempts, keyID, string(hash)}); n != nil {
					s.attempts[q] = max(s.attempts[q], uint64(*n)) //nolint:gosec // written from an uint64
				}
				return nil
			},
		},
		askKey: {
			`SELECT id, revision FROM keys WHERE id = ANY($1)`, byText,
			func(s *state, r pgx.CollectableRow) error {
				var id string
				var revision int64
				err := r.Scan(&id, &revision)
				s.keys[id] = keyRead{uint64(revision)} //nolint:gosec // written from an uint64
				return err
			},
		},
		askUse: {
			`SELECT w.id, q.k, w.key_id, l.key_id IS NOT NULL FROM unnest($1::text[], $2::text[]) q (w, k)
				JOIN wallets w ON w.id = q.w AND w.live LEFT JOIN loans l ON l.key_id = q.k AND l.wallet_id = q.w`,
			byTexts,
			func(s *state, r pgx.CollectableRow) error {
				var wallet, key, owner string
				var lent bool
				err := r.Scan(&wallet, &key, &owner, &lent)
				s.uses[question{askUse, wallet, key}] = use{owner: owner, lent: lent}
				return err
			},
		},
		askPlan: {
			`SELECT id, row FROM organizations WHERE id = ANY($1)`, byText,
			func(s *state, r pgx.CollectableRow) error {
				var id string
				var row []byte
				if err := r.Scan(&id, &row); err != nil {
					return err
				}
				var org pay.Organization
				err := json.Unmarshal(row, &org)
				s.plans[id] = org.Plan
				return err
			},
		},
		askCounter: {`SELECT name, amount::text FROM counters WHERE name = ANY($1)`, byBytes, scanCounter},
		askCounters: {
			`SELECT c.name, c.amount::text FROM unnest($1::bytea[], $2::bytea[]) q (p, e) JOIN counters c ON c.name >= q.p AND c.name < q.e WHERE c.amount > 0`,
			func(list []question) []any { return []any{bytesOf(list, first), bytesOf(list, endOf)} }, scanCounter,
		},
		askPaid: {
			`SELECT q.k, q.h FROM unnest($1::text[], $2::bytea[]) q (k, h) WHERE EXISTS (SELECT FROM spend s WHERE s.key_id = q.k AND s.host_hash = q.h)`,
			byPair,
			func(s *state, r pgx.CollectableRow) error {
				var keyID string
				var hash []byte
				err := r.Scan(&keyID, &hash)
				s.paid[question{askPaid, keyID, string(hash)}] = true
				return err
			},
		},
		askMark: {
			`SELECT name, count, until FROM notice_marks WHERE name = ANY($1)`, byBytes,
			func(s *state, r pgx.CollectableRow) error {
				var name []byte
				var count, until int64
				err := r.Scan(&name, &count, &until)
				if !s.setMarks[string(name)] {
					s.marks[string(name)] = markOf(count, until)
				}
				return err
			},
		},
		askApproval: {
			`SELECT a.row FROM unnest($1::text[], $2::bytea[]) q (k, h) JOIN approvals a ON a.key_id = q.k AND a.purchase = q.h`, byPair, scanApproval,
		},
		askPending: {`SELECT row FROM approvals WHERE NOT answered AND key_id = ANY($1)`, byText, scanApproval},
		askKept:    {`SELECT row FROM approvals WHERE key_id = ANY($1)`, byText, scanApproval},
		askSetting: {
			`SELECT name, value FROM settings WHERE name = ANY($1)`, byText,
			func(s *state, r pgx.CollectableRow) error {
				var name string
				var value []byte
				err := r.Scan(&name, &value)
				s.settings[name] = value
				return err
			},
		},
		askEvent: {
			`SELECT id FROM spend WHERE id = ANY($1)`, byText,
			func(s *state, r pgx.CollectableRow) error {
				var id string
				err := r.Scan(&id)
				s.eventIDs[id] = true
				return err
			},
		},
		askDay: {
			`SELECT d.key_id, d.day, d.row FROM unnest($1::text[], $2::int[]) q (k, d) JOIN spend_days d ON d.key_id = q.k AND d.day = q.d`, byDay,
			func(s *state, r pgx.CollectableRow) error {
				q, row, err := scanDay(askDay, r)
				if err == nil {
					err = into(s.days[q], row, codec.DecodeDay)
				}
				return err
			},
		},
	}
}

func into[T any](to *T, row []byte, decode func([]byte) (T, error)) error {
	value, err := decode(row)
	if err == nil {
		*to = value
	}
	return err
}

func scanDay(k kind, r pgx.CollectableRow) (q question, row []byte, err error) {
	var day int32
	q.kind = k
	err = r.Scan(&q.a, &day, &row)
	q.b = string(day)
	return q, row, err
}

func scanCounter(s *state, r pgx.CollectableRow) error {
	var name []byte
	var text string
	if err := r.Scan(&name, &text); err != nil {
		return err
	}
	if s.exist[pay.Counter(name)] = true; s.touched[pay.Counter(name)] {
		return nil
	}
	amount, err := x402.ParseAmount(text)
	if err != nil {
		return fmt.Errorf("counter %s: %w", name, err)
	}
	s.counters[pay.Counter(name)] = amount
	return nil
}

// empty makes the answers of questions that no row may answer.
func (s *state) empty(q question) {
	switch q.kind { //nolint:exhaustive // the others have a zero value
	case askLiving, askAwaited, askTransaction, askReconciled:
		s.sets[q] = map[string]bool{}
	case askHost:
		s.hosts[q] = map[string]uint64{}
	case askAttempts:
		s.attempts[q] = 0
	case askPlan:
		s.plans[q.a] = pay.PlanFree
	case askApproval:
		s.purchases[q] = map[string]bool{}
	case askPending:
		s.pending[q] = map[string]time.Time{}
	case askKept:
		s.kept[q.a] = nil
	case askDay:
		s.days[q] = new(codec.Day)
	}
}

// questionsOf divides what is missing by kind.
func (s *state) questionsOf() (by [kinds][]question) {
	for q := range s.missing {
		by[q.kind] = append(by[q.kind], q)
	}
	return by
}

// queue adds the questions that are missing to a round trip.
func (s *state) queue(b *pgx.Batch) (asked [kinds][]question) {
	asked = s.questionsOf()
	all := readers()
	for k, list := range asked {
		if len(list) > 0 {
			b.Queue(all[k].sql, all[k].args(list)...)
		}
	}
	return asked
}

// receive reads the answers to what queue has asked, in the same order.
func (s *state) receive(r pgx.BatchResults, asked [kinds][]question) error {
	all := readers()
	for k, list := range asked {
		if len(list) == 0 {
			continue
		}
		for _, q := range list {
			s.empty(q)
		}
		rows, err := r.Query()
		if err != nil {
			return err
		}
		for rows.Next() {
			if err := all[k].scan(s, rows); err != nil {
				rows.Close()
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	s.answer(s.missing)
	return nil
}
