throw new TypeError('this module does not load')
