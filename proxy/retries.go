package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// Ends of the names of headers in which libraries count. Their names differ in what comes before.
var (
	// retryCounts count the repeats of a request, from 0: in the SDKs that Stainless makes, such as OpenAI's and
	// Anthropic's, those of Kiota, fetch-retry, gRPC, and others.
	retryCounts = []string{"Retry-Count", "Retry-Attempt", "Retry-Number", "Retry-Num", "Previous-Rpc-Attempts"}
	// attemptCounts count the tries, from 1: Envoy's, Armeria's, and others.
	attemptCounts = []string{"Attempt-Count", "Attempt-Number", "Request-Attempt", "Total-Attempts"}
)

// attempts lists headers in which the tries are counted from 1 among other things, and what stands before the
// number: those of AWS, of Volcengine, and of Google's libraries.
var attempts = []struct{ header, before string }{
	{"Amz-Sdk-Request", "attempt="},
	{"X-Sdk-Request", "attempt="},
	{"X-Goog-Api-Client", "gccl-attempt-count/"},
}

// saysRetried reports whether the header of a request says that it is no first try.
func saysRetried(h http.Header) bool {
	for name, values := range h {
		if len(values) > 0 && counted(name, values[0]) {
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

// counted reports whether a header counts tries, and this is not the first one. A count of so many, such as 2/50,
// begins with 1.
func counted(name, value string) bool {
	if !strings.Contains(name, "Attempt") && !strings.Contains(name, "Retry") || strings.Contains(name, "Max") {
		return false // a bound is no count
	}
	number, _, of := strings.Cut(value, "/")
	switch {
	case endsIn(name, attemptCounts):
		return counts(number) > 1
	case !endsIn(name, retryCounts):
		return false
	case of:
		return counts(number) > 1
	}
	return counts(number) > 0
}

// endsIn reports whether one of the ends is the whole name, or what follows a hyphen in it.
func endsIn(name string, ends []string) bool {
	for _, end := range ends {
		if before, is := strings.CutSuffix(name, end); is && (before == "" || strings.HasSuffix(before, "-")) {
			return true
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
