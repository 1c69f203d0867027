package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// retryCounts lists the headers in which libraries count the repeats of a request, from 0: the SDKs that Stainless
// makes, such as OpenAI's and Anthropic's, those of Kiota, and others.
var retryCounts = []string{"X-Stainless-Retry-Count", "Retry-Attempt", "X-Retry-Count", "Retry-Count"}

// attempts lists headers in which the tries of a request are counted from 1, and what stands before the number:
// those of AWS, of Google's libraries, and of Envoy.
var attempts = []struct{ header, before string }{
	{"Amz-Sdk-Request", "attempt="},
	{"X-Goog-Api-Client", "gccl-attempt-count/"},
	{"X-Envoy-Attempt-Count", ""},
}

// saysRetried reports whether the header of a request says that it is no first try.
func saysRetried(h http.Header) bool {
	for _, name := range retryCounts {
		if counts(h.Get(name)) > 0 {
			return true
		}
	}
	for _, a := range attempts {
		for value := range strings.FieldsFuncSeq(h.Get(a.header), func(r rune) bool { return r == ' ' || r == ';' || r == ',' }) {
			if number, is := strings.CutPrefix(value, a.before); is && counts(number) > 1 {
				return true
			}
		}
	}
	return false
}

// counts reads a number; 0: it is none.
func counts(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0
	}
	return n
}
