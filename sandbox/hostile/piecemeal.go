package hostile

import (
	"net/http"
	"time"
)

// Piecemeal is no fault: the seller serves honestly, but sends the goods in pieces with a pause
// after each.
func Piecemeal(pieces int, every time.Duration) SellerFault {
	return SellerFault{Name: "delivers piece by piece", On: Paid, Do: func(v *Visit) {
		v.w = &piecemeal{ResponseWriter: v.w, r: v.r, pieces: pieces, every: every}
		v.Serve()
	}}
}

type piecemeal struct {
	http.ResponseWriter
	r      *http.Request
	pieces int
	every  time.Duration
}

// Write sends each piece on its own.
func (p *piecemeal) Write(b []byte) (written int, err error) {
	size := max(1, (len(b)+p.pieces-1)/p.pieces)
	for err == nil && written < len(b) {
		var n int
		n, err = p.ResponseWriter.Write(b[written:min(written+size, len(b))])
		written += n
		_ = http.NewResponseController(p.ResponseWriter).Flush() // ignore a customer that has left
		pause(p.r.Context(), p.every)
	}
	return written, err
}
