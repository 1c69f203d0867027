package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
)

// The boundary of a multipart body does not count, and everything else does.
func TestBodySum(t *testing.T) {
	t.Parallel()
	const body = "preamble\r\n--BB\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n--B\n-- BB --BB\r\n--BB--\r\n"
	sum := func(kind, boundary, text string, size int) pay.Hash {
		s := newBodySum(http.Header{"Content-Type": {kind + "; boundary=" + boundary}})
		for piece := range pieces(strings.ReplaceAll(text, "\n--BB", "\n--"+boundary), size) {
			_, _ = s.Write([]byte(piece))
		}
		says, _ := s.sums()
		return says
	}
	want := sum("multipart/form-data", "BB", body, 1<<20)
	for _, size := range []int{1, 3, 1 << 20} {
		for _, kind := range []string{"multipart/form-data", "multipart/mixed", "multipart/related"} {
			if sum(kind, "another-one", body, size) != want || sum(kind, "--BB", body, size) != want {
				t.Errorf("%s, pieces of %d: another boundary is another body", kind, size)
			}
			if sum(kind, "BB", strings.Replace(body, "name=\"a\"", "name=\"b\"", 1), size) == want {
				t.Errorf("%s: another name is the same body", kind)
			}
		}
	}
	for _, kind := range []string{"multipart/form-data, charset=utf-8", " Multipart/Form-Data; charset=\"a"} {
		for _, boundary := range []string{"----=_Part_1_2.3", "a/b:c", "BB"} {
			if sum(kind, boundary, body, 3) != want {
				t.Errorf("%s, %s: another boundary is another body", kind, boundary)
			}
		}
	}
	if sum("multipart/form-data", "----=_Part_1", body, 99) != want {
		t.Error("a boundary without its quotes is another body")
	}
	if sum("text/plain", "----=_Part_1", body, 99) == sum("text/plain", "----=_Part_2", body, 99) {
		t.Error("a text whose boundary cannot be read is parted")
	}
	if sum("text/plain", "BB", body, 99) == sum("text/plain", "CC", body, 99) {
		t.Error("a text is parted")
	}
}
