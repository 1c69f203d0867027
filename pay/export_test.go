package pay

// RetainOnce takes one step of removing old payments.
var RetainOnce = (*Payer).retainOnce
