package storetest

import (
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

var deliveryTests = map[string]func(*fixture){
	"undelivered": func(f *fixture) {
		k := f.key()
		fails := func(p *pay.Payment, v pay.Verdict, status int) pay.Outcome {
			o := outcome(p, v)
			o.Release, o.Undelivered = true, &pay.Undelivered{Status: status}
			return o
		}
		again := func(p *pay.Payment) *pay.Payment {
			return must(f.Acquire(f.ctx, p.ID, "again", noon.Add(time.Second), noon.Add(time.Minute)))
		}
		// The money moved, and an error came.
		body := pay.AnswerBody{Hash: pay.HashOf("the answer"), Size: 1 << 33, Cut: true}
		robs := fails(f.begin(want(k, noon), pay.Created), pay.VerdictSettled, 500)
		robs.Heard = &pay.Heard{Status: 500, Body: body}
		stolen, fx, err := f.Record(f.ctx, robs)
		f.must(err)
		f.same("body", stolen.AnswerBody, body)
		f.same("row", []any{stolen.Labels(), stolen.AnswerStatus, stolen.Withheld, fx.ForNothing}, []any{[]string{"settled", "undelivered"}, 500, true, true})
		f.same("stored", f.find(stolen.ID), stolen)
		// No answer came, and the money may have moved. It has.
		lost := f.record(fails(f.begin(want(k, noon), pay.Created), pay.Unclear, 0))
		f.same("row", []any{lost.Labels(), lost.AnswerStatus}, []any{[]string{"open", "undelivered"}, 0})
		lost, fx, err = f.Record(f.ctx, outcome(lost, pay.VerdictSettled))
		f.must(err)
		f.same("for nothing", []any{lost.Labels(), fx.ForNothing}, []any{[]string{"settled", "undelivered"}, true})
		// Only a repeat brought nothing: an earlier answer may have been lost on the way.
		repeat := fails(f.begin(want(k, noon), pay.Created), pay.VerdictSettled, 402)
		repeat.Undelivered.Repeat = true
		refused := f.record(repeat)
		f.same("row", []any{refused.Labels(), refused.Withheld}, []any{[]string{"settled", "undelivered"}, false})
		f.same("stored", f.find(refused.ID), refused)
		// It has not.
		void := again(f.record(fails(f.begin(want(k, noon), pay.Created), pay.Unclear, 402)))
		f.same("void", f.record(outcome(void, pay.VerdictVoid)).Labels(), []string{"void"})
		// A repeat brings the answer, and the answer to a further one says nothing.
		late := f.record(fails(f.begin(want(k, noon), pay.Created), pay.VerdictSettled, 200))
		good := outcome(again(late), pay.Unclear)
		good.Release, good.Answered, good.Heard = true, true, &pay.Heard{Status: 200, Body: body}
		whole := body
		whole.Cut = false
		late = f.record(good)
		f.same("delivered", []any{late.Labels(), late.AnswerStatus, late.AnswerBody}, []any{[]string{"settled"}, 200, whole})
		late = f.record(fails(again(late), pay.Unclear, 402))
		f.same("delivered before", []any{late.Labels(), late.AnswerStatus, late.AnswerBody}, []any{[]string{"settled"}, 200, whole})
		f.same("stored", f.find(late.ID), late)
		// The client left, and of that answer purser has seen the beginning. A later error counts more.
		left := f.begin(want(k, noon), pay.Created)
		gone := outcome(left, pay.VerdictSettled)
		gone.Release, gone.Heard = true, &pay.Heard{Status: 200, Body: body}
		left = f.record(gone)
		f.same("cut", []any{left.Labels(), left.AnswerStatus, left.AnswerBody}, []any{[]string{"settled"}, 200, body})
		left = f.record(fails(again(left), pay.Unclear, 0))
		f.same("no answer", []any{left.AnswerStatus, left.AnswerBody}, []any{0, pay.AnswerBody{}})
		gone = outcome(again(left), pay.Unclear)
		gone.Release, gone.Heard = true, &pay.Heard{Status: 200, Body: body}
		f.same("cut later", f.record(gone).AnswerBody, pay.AnswerBody{})
		f.reopen(Opener.Kill)
		marked := []string{lost.ID, stolen.ID, refused.ID, left.ID}
		slices.Sort(marked)
		slices.Reverse(marked)
		f.same("of the key", f.list(k, "undelivered", 1), marked)
		f.same("of all keys", ids(must(f.AllPayments(f.ctx, pay.LabelQuery{Label: "undelivered", Limit: 10}))), marked)
		f.same("without", len(must(f.AllPayments(f.ctx, pay.LabelQuery{Without: []string{"undelivered"}, Limit: 10}))), 2)
		f.same("count", must(f.CountOpen(f.ctx, "undelivered")), 4)
		for _, q := range []pay.PaymentFilter{{Label: "undelivered", Limit: 10}, {Label: "undelivered", Limit: 1, All: true}} {
			f.same("pages", f.pages(q, 9, k), marked)
			sum := must(f.SumPayments(f.ctx, []string{k.ID}, q))
			f.same("sum", sum.Count(), 4)
		}
		f.same("of several keys", ids(must(f.PaymentsOf(f.ctx, []string{k.ID}, "undelivered", 10))), marked)
	},
}
