package adminapi

import (
	"net/http"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/declines"
)

// Declined tells of requests of a key that were not paid, for one reason at one host, or for one tool.
type Declined struct {
	Reason   string `json:"reason"`
	Host     string `json:"host"`
	Tool     string `json:"tool,omitempty"` // such as mcp://api.example.com/tool/get_weather
	KeyID    string `json:"key_id"`         // "": no key
	KeyLabel string `json:"key_label,omitempty"`
	Count    int    `json:"count"`
	// First and Last are the times of the first and the last of them. Task, Price and Detail are those of the last.
	First  time.Time        `json:"first"`
	Last   time.Time        `json:"last"`
	Task   string           `json:"task,omitempty"`
	Price  string           `json:"price,omitempty"` // in the smallest unit; "": not known
	Detail string           `json:"detail,omitempty"`
	Do     *declines.Advice `json:"do,omitempty"`
}

// DeclinedList is the answer of GET /purser/declined, the latest first.
type DeclinedList struct {
	Declined []Declined `json:"declined"`
}

// declined lists what was declined: GET /purser/declined?key=&host=&reason=&since=&until=. Days are those of UTC.
func (p *Purser) declined(r *http.Request) (any, error) {
	asked := r.URL.Query()
	q := books.DeclinedQuery{Host: asked.Get("host"), Reason: asked.Get("reason")}
	for name, day := range map[string]*time.Time{"since": &q.From, "until": &q.To} {
		if text := asked.Get(name); text != "" {
			var err error
			if *day, err = time.Parse(time.DateOnly, text); err != nil {
				return nil, Errorf(http.StatusBadRequest, "%s: a day such as 2026-11-01", name)
			}
		}
	}
	if name := asked.Get("key"); name != "" {
		k, err := p.find(r.Context(), name)
		if err != nil {
			return nil, err
		}
		q.KeyID = k.ID
	}
	list, err := p.Books.DeclinedIn(r.Context(), books.OfOperator(), q, time.Now())
	if err != nil {
		return nil, err
	}
	answer := DeclinedList{make([]Declined, len(list))}
	for i, d := range list {
		host, tool := d.Place()
		answer.Declined[i] = Declined{
			Reason: d.Reason, Host: host, Tool: tool, KeyID: d.KeyID, Count: d.Count, First: d.First, Last: d.Last, Task: d.Task,
			Detail: d.Detail, Do: declines.Do(d.Reason),
		}
		if d.Price != nil {
			answer.Declined[i].Price = d.Price.String()
		}
	}
	err = nameKeys(p, r.Context(), answer.Declined, func(d *Declined) (string, *string) { return d.KeyID, &d.KeyLabel })
	return answer, err
}
