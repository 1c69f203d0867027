package adminapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// The file, lists and stories have what purser has seen of an answer, and the file says what it has not.
func TestAnswerOf(t *testing.T) {
	t.Parallel()
	body := pay.AnswerBody{Hash: pay.HashOf("the answer"), Size: 7}
	begins := body
	begins.Cut = true
	const proxy = policy.DoorProxy
	for name, c := range map[string]struct {
		row          pay.Payment
		told, absent string
	}{
		"error":              {pay.Payment{Door: proxy, State: pay.Settled, Undelivered: true, AnswerStatus: 500, AnswerBody: body}, "status 500; its body has 7 bytes", ""},
		"delivered":          {pay.Payment{Door: proxy, State: pay.Settled, Answered: true, AnswerStatus: 200, AnswerBody: body}, "status 200; its body has 7 bytes", ""},
		"the client left":    {pay.Payment{Door: proxy, State: pay.Settled, AnswerStatus: 200, AnswerBody: begins}, "status 200; its body has at least 7 bytes", "all of the answer"},
		"no answer":          {pay.Payment{Door: proxy, State: pay.Settled, Undelivered: true}, "no answer came", ""},
		"of earlier version": {pay.Payment{Door: proxy, State: pay.Settled, Answered: true}, "the caller got its answer", "the status and hash"},
		"never sent":         {pay.Payment{Door: proxy, State: pay.Open}, "not signed", "whether an answer came"},
		"on REST":            {pay.Payment{Door: policy.DoorAPI, State: pay.Settled, Receipted: true, Answered: true}, "receipt was posted", "has sent the request itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, shown := answerOf(&c.row), shownPayment(&c.row)
			if !strings.Contains(a.Unknown, c.absent) || (a.Unknown == "") != (c.absent == "") {
				t.Errorf("%+v", a)
			}
			known := c.row.AnswerBody.Hash != pay.Hash{}
			if (a.Body != nil) != known || (shown.AnswerBody != nil) != known || known && (*a.Body != *shown.AnswerBody || a.Body.Complete == c.row.AnswerBody.Cut) {
				t.Errorf("%+v, %+v", a.Body, shown.AnswerBody)
			}
			if story := evidenceOf(&c.row); !slices.ContainsFunc(story, func(line string) bool { return strings.Contains(line, c.told) }) {
				t.Errorf("%q", story)
			}
		})
	}
}
