package pgstore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// reads asks the questions of all kinds.
type reads struct {
	readers [kinds]reader
	// texts remembers the statements for sets of kinds.
	texts memory[string]
}

// maxTexts bounds the statements that are remembered.
const maxTexts = 500

func newReads() *reads { return &reads{readers(), newMemory[string](maxTexts)} }

// reader asks the questions of one kind. Answers go to the state.
type reader struct {
	columns
	from string
	args func(list []question) []any
	take func(s *state, found *answer) error
}

// answer holds a row that answers a question. All kinds have the same columns, so that one statement asks all.
type answer struct {
	kind                  kind
	a, id                 string
	b, row, payload, more []byte
	n, m                  int64
}

// columns names what a reader selects for an answer. The others are empty.
type columns struct{ a, id, b, row, payload, more, n, m string }

// statement selects the answers of a kind.
func (r reader) statement(k kind) string {
	or := func(column, otherwise string) string {
		if column == "" {
			return otherwise
		}
		return column
	}
	return fmt.Sprintf("SELECT %d::bigint, %s, %s, %s, %s, %s, %s, %s, %s FROM %s", k, or(r.a, "''::text"), or(r.id, "''::text"), or(r.b, "NULL::bytea"),
		or(r.row, "NULL::bytea"), or(r.payload, "NULL::bytea"), or(r.more, "NULL::bytea"), or(r.n, "0::bigint"), or(r.m, "0::bigint"), r.from)
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
func both(q question) string   { return withKey(q.a, q.b) }

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

// inSet takes a payment that a search has found.
func inSet(s *state, f *answer) error {
	if set := s.sets[f.single()]; set != nil {
		set[f.id] = true
	}
	return s.keep(f.id, f.row, f.payload)
}

// pair returns a question about a key and something of it.
func (f *answer) pair() question { return question{f.kind, f.a, string(f.b)} }

// single returns a question about bytes.
func (f *answer) single() question { return question{f.kind, string(f.b), ""} }

// readers says how each kind of question is asked.
func readers() [kinds]reader {
	found := func(b string) columns { return columns{b: b, id: "p.id", row: "p.row", payload: "p.payload"} }
	return [kinds]reader{
		askPayment: {
			found(""), `payments p WHERE p.id = ANY($1)`, byText,
			func(s *state, f *answer) error { return s.keep(f.id, f.row, f.payload) },
		},
		askLiving: {
			found("p.living"), `payments p WHERE p.living = ANY($1)`, byBytes, inSet,
		},
		askAwaited: {
			found("p.awaited"), `payments p WHERE p.awaited = ANY($1)`, byBytes, inSet,
		},
		askTransaction: {
			found("p.transaction"), `payments p WHERE p.transaction = ANY($1)`, byBytes, inSet,
		},
		askReconciled: {
			found("q.h"), `unnest($1::bytea[]) q (h) JOIN payments p ON p.nonce >= q.h AND p.nonce < q.h || '\xffffffffffffffffffffffffffffffffff'::bytea AND p.labels & 128 <> 0`,
			byBytes, inSet,
		},
		askAuthorization: {
			columns{b: "p.payer", row: "p.nonce"},
			`(SELECT unnest($1::bytea[]) f, unnest($2::bytea[]) n) q JOIN payments p ON p.nonce = q.n AND p.payer = q.f`,
			func(list []question) []any { return []any{bytesOf(list, first), bytesOf(list, second)} },
			func(s *state, f *answer) error {
				s.authorized[question{askAuthorization, string(f.b), string(f.row)}] = true
				return nil
			},
		},
		askHost: {
			columns{b: "p.holds_host", id: "p.id", n: "p.valid_before"},
			`payments p WHERE p.holds_host = ANY($1)`, byBytes,
			func(s *state, f *answer) error {
				s.hosts[f.single()][f.id] = uint64(f.n) //nolint:gosec // written from an uint64
				return nil
			},
		},
		askAttempts: {
			columns{a: "q.k", b: "q.h", n: `coalesce(greatest((SELECT max(attempt) FROM payments p WHERE p.attempt_of = q.w),
				(SELECT attempt FROM removed_attempts r WHERE r.key_id = q.k AND r.attempt_of = q.h)), 0)`},
			`(SELECT unnest($1::text[]) k, unnest($2::bytea[]) h, unnest($3::bytea[]) w) q`,
			func(list []question) []any { return append(byPair(list), bytesOf(list, both)) },
			func(s *state, f *answer) error {
				s.attempts[f.pair()] = max(s.attempts[f.pair()], uint64(f.n)) //nolint:gosec // written from an uint64
				return nil
			},
		},
		askKey: {
			columns{a: "k.id", n: "k.revision"},
			`keys k WHERE k.id = ANY($1)`, byText,
			func(s *state, f *answer) error {
				s.keys[f.a] = keyRead{uint64(f.n)} //nolint:gosec // written from an uint64
				return nil
			},
		},
		askUse: {
			columns{a: "w.id", b: "convert_to(w.key_id, 'UTF8')", id: "q.k", n: "(l.key_id IS NOT NULL)::int"},
			`(SELECT unnest($1::text[]) w, unnest($2::text[]) k) q JOIN wallets w ON w.id = q.w AND w.live LEFT JOIN loans l ON l.key_id = q.k AND l.wallet_id = q.w`,
			byTexts,
			func(s *state, f *answer) error {
				s.uses[question{askUse, f.a, f.id}] = use{owner: string(f.b), lent: f.n == 1}
				return nil
			},
		},
		askPlan: {
			columns{a: "o.id", row: asBytes("o.row")},
			`organizations o WHERE o.id = ANY($1)`, byText,
			func(s *state, f *answer) error {
				var org pay.Organization
				err := json.Unmarshal(f.row, &org)
				s.plans[f.a] = org.Plan
				return err
			},
		},
		askCounter: {columns{b: "c.name", id: "c.amount::text"}, `other_counters c WHERE c.name = ANY($1)`, byBytes, takeCounter},
		askCounters: {
			columns{b: "c.name", id: "c.amount::text"},
			`(SELECT unnest($1::bytea[]) p, unnest($2::bytea[]) e) q JOIN other_counters c ON c.name >= q.p AND c.name < q.e WHERE c.amount > 0`,
			func(list []question) []any { return []any{bytesOf(list, first), bytesOf(list, endOf)} }, takeCounter,
		},
		askPaid: {
			columns{b: "q.h", id: "p.id", row: "p.row"},
			fmt.Sprintf(`unnest($1::bytea[]) q (h) CROSS JOIN LATERAL (SELECT s.payment_id FROM spend s WHERE s.host_hash = q.h ORDER BY s.id DESC LIMIT %d) e
				JOIN payments p ON p.id = e.payment_id`, pay.PaidLooked), byBytes,
			func(s *state, f *answer) error {
				p, err := codec.Decode(codec.Stored{Row: f.row})
				if err != nil {
					return fmt.Errorf("payment %s: %w", f.id, err)
				}
				s.pays(f.single(), p)
				return nil
			},
		},
		askMark: {
			columns{b: "m.name", n: "m.count", m: "m.until"},
			`notice_marks m WHERE m.name = ANY($1)`, byBytes,
			func(s *state, f *answer) error {
				if name := string(f.b); !s.setMarks[name] {
					s.marks[name] = markOf(f.n, f.m)
				}
				return nil
			},
		},
		askApproval: {
			columns{row: asBytes("a.row")},
			`(SELECT unnest($1::text[]) k, unnest($2::bytea[]) h) q JOIN approvals a ON a.key_id = q.k AND a.purchase = q.h`,
			byPair, takeApproval,
		},
		askPending: {columns{row: asBytes("a.row")}, `approvals a WHERE NOT a.answered AND a.key_id = ANY($1)`, byText, takeApproval},
		askKept:    {columns{row: asBytes("a.row")}, `approvals a WHERE a.key_id = ANY($1)`, byText, takeApproval},
		askSetting: {
			columns{a: "s.name", row: "s.value"},
			`settings s WHERE s.name = ANY($1)`, byText,
			func(s *state, f *answer) error {
				s.settings[f.a] = f.row
				return nil
			},
		},
		askEvent: {
			columns{id: "s.id"},
			`spend s WHERE s.id = ANY($1)`, byText,
			func(s *state, f *answer) error {
				s.eventIDs[f.id] = true
				return nil
			},
		},
		askSheet: {
			columns{b: "h.name", row: "h.counters", payload: "h.spent", more: "h.drawn", n: "coalesce(h.day, -1)"},
			`sheets h WHERE h.name = ANY($1)`, byBytes, takeSheet,
		},
		askStore: {
			columns{b: "q.id", n: "q.n"},
			storeNow + ` q`,
			func(list []question) []any { return []any{idsIn(list[0].a)} },
			func(s *state, f *answer) error {
				s.storeID, s.batches = string(f.b), int(f.n)
				return nil
			},
		},
		askDay: {
			columns{a: "d.key_id", n: "d.day", row: "d.row"},
			`(SELECT unnest($1::text[]) k, unnest($2::int[]) d) q JOIN spend_days d ON d.key_id = q.k AND d.day = q.d`, byDay, takeDay,
		},
	}
}

// asBytes selects JSON as bytes.
func asBytes(column string) string { return "convert_to(" + column + "::text, 'UTF8')" }

// empty makes the answers of questions that no row may answer.
func (s *state) empty(q question) {
	switch q.kind { //nolint:exhaustive // the others have a zero value
	case askLiving, askAwaited, askTransaction, askReconciled:
		s.sets[q] = map[string]bool{}
	case askHost:
		s.hosts[q] = map[string]uint64{}
	case askAttempts:
		s.attempts[q] = 0
	case askSetting:
		delete(s.settings, q.a)
	case askUse:
		delete(s.uses, q)
	case askPlan:
		s.plans[q.a] = pay.PlanFree
	case askApproval:
		s.purchases[q] = map[string]bool{}
	case askPending:
		s.pending[q] = map[string]time.Time{}
	case askKept:
		s.kept[q.a] = nil
	case askDay:
		if s.days[q] == nil { // else the batch has set it apart
			s.days[q] = new(spendDay)
		}
	}
}

// questionsOf divides what is missing by kind.
func (s *state) questionsOf() (by [kinds][]question) {
	for q := range s.missing {
		by[q.kind] = append(by[q.kind], q)
	}
	return by
}

// queue adds the questions that are missing to a round trip, as one statement: a database spends as much on
// a small one as on several rows.
func (s *state) queue(b *pgx.Batch) (asked [kinds][]question) {
	if len(s.missing) == 0 {
		return asked
	}
	asked = s.questionsOf()
	var name []byte
	var args []any
	for k, list := range asked {
		if len(list) > 0 {
			name, args = append(name, byte(k)), append(args, s.readers[k].args(list)...)
		}
	}
	b.Queue(s.text(name), args...)
	return asked
}

// text returns the statement that asks questions of some kinds.
func (r *reads) text(kinds []byte) string {
	text, known := r.texts.Get(string(kinds))
	if known {
		return text
	}
	var parts []string
	before := 0
	for _, k := range kinds {
		part, last := r.readers[k].statement(kind(k)), 0
		parts = append(parts, placeholder.ReplaceAllStringFunc(part, func(s string) string {
			n, _ := strconv.Atoi(s[1:]) // digits
			last = max(last, n)
			return "$" + strconv.Itoa(before+n)
		}))
		before += last
	}
	text = strings.Join(parts, "\nUNION ALL ")
	r.texts.Add(string(kinds), text)
	return text
}

var placeholder = regexp.MustCompile(`\$\d+`)

// receive reads the answers to what queue has asked.
func (s *state) receive(r pgx.BatchResults, asked [kinds][]question) error {
	if len(s.missing) == 0 {
		return nil
	}
	for _, list := range asked {
		for _, q := range list {
			s.empty(q)
		}
	}
	rows, err := r.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var f answer
		var k int64
		if err := rows.Scan(&k, &f.a, &f.id, &f.b, &f.row, &f.payload, &f.more, &f.n, &f.m); err != nil {
			return err
		}
		f.kind = kind(k) //nolint:gosec // as the statement says it
		if err := s.readers[k].take(s, &f); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	s.answer(s.missing)
	return nil
}
