package pay

import (
	"context"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// Declined counts the requests of a key that purser declined on a UTC day, for one reason at one host, or for one tool.
type Declined struct {
	KeyID  string    // "" for a request without a key
	Day    time.Time // its beginning
	Reason string    // a word, that of the rule where a rule declined; or RestName
	// Host is that of payments, or what was asked for there, as [policy.ToolOf] writes it; or RestName.
	Host  string
	Count int
	// First and Last are the times of the first and the last of them.
	First, Last time.Time
	// Price, Task and Detail are those of the last one. A Price of nil is not known.
	Price  *money.Amount
	Task   string
	Detail string
}

// Place returns the host of the requests, and their tool, "" for requests that are for none.
func (d Declined) Place() (host, tool string) {
	if tool = policy.ToolOf(d.Host); tool != "" {
		return RecordedHost(tool), tool
	}
	return d.Host, ""
}

// DeclineReader reads what was declined.
type DeclineReader interface {
	// Declines lists what was declined to keys from one UTC day to another, in no order, at a cost of keys
	// times days. An empty id stands for requests without a key.
	Declines(ctx context.Context, keyIDs []string, from, to time.Time) ([]Declined, error)
}

// DeclineBook keeps counts of declined requests.
type DeclineBook interface {
	DeclineReader

	// AddDeclines adds counts to those of their keys and days, by [AddDeclined]. It drops the counts of
	// keys that do not exist, and days of these keys that are MaxDeclinedDays older.
	AddDeclines(ctx context.Context, list []Declined) error
}

const (
	// MaxDeclined bounds the reasons and hosts that are told apart for a key on a day.
	MaxDeclined = 50
	// MaxDeclinedDays bounds the days of a key: the current and the last month are among them.
	MaxDeclinedDays = 62
	// maxDeclinedText bounds the words that are kept of a decline, in bytes.
	maxDeclinedText = 300
)

// AddDeclined adds a count to those of its key and day. When there are MaxDeclined of them, other
// counts are added to that of RestName, which comes on top.
func AddDeclined(day []Declined, d Declined) []Declined {
	at := declinedAt(day, d.Reason, d.Host)
	if at < 0 && (len(day) < MaxDeclined || d.Reason == RestName) {
		return append(day, d)
	}
	if at < 0 {
		d.Reason, d.Host = RestName, RestName
		if at = declinedAt(day, RestName, RestName); at < 0 {
			return append(day, d)
		}
	}
	day[at].merge(d)
	return day
}

func declinedAt(day []Declined, reason, host string) int {
	return slices.IndexFunc(day, func(d Declined) bool { return d.Reason == reason && d.Host == host })
}

// merge adds the count of the same key, day, reason and host.
func (d *Declined) merge(o Declined) {
	d.Count += o.Count
	if o.First.Before(d.First) {
		d.First = o.First
	}
	if !o.Last.Before(d.Last) {
		d.Last, d.Price, d.Task, d.Detail = o.Last, o.Price, o.Task, o.Detail
	}
}

// declinedOf counts one decline.
func declinedOf(d Decline, at time.Time) Declined {
	at = at.UTC()
	host := SumName(d.Host)
	if d.Tool != "" && len(d.Tool) <= MaxSumName {
		host = d.Tool
	}
	return Declined{
		KeyID: d.KeyID, Day: DayOf(at), Reason: cutBytes(d.Reason, 64), Host: host, Count: 1, First: at, Last: at,
		Price: d.Price, Task: cutBytes(d.Task, 64), Detail: cutBytes(d.Detail, maxDeclinedText),
	}
}

// cutBytes cuts text off in front of the character that passes a number of bytes.
func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xc0 == 0x80 {
		most--
	}
	return s[:most]
}
